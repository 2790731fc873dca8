use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::Response;
use tollgate_core::Settlement;

use crate::permit::Permit;

/// What a request was charged by the limiter of a [`ClientLayer`](super::ClientLayer). It is in the extensions of the
/// response.
///
/// A concurrency permit is held until it is released, settled, or the last clone is dropped. Dropping the response's
/// extensions drops it too, for example by `into_body`; a program that reads the body under a concurrency limit keeps a
/// clone.
///
/// ```
/// # use http::{Request, Response};
/// # use tower::{Layer, Service, ServiceExt, service_fn};
/// use tollgate::client::{ClientCharge, ClientLayer};
/// use tollgate::{Limiter, rule};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// # let http_client = service_fn(async |_: Request<String>| Ok::<_, std::io::Error>(Response::new("12 tokens")));
/// let limiter = Limiter::builder().rule(rule("tokens").limit("1000/min")).build()?;
/// let mut client = ClientLayer::new().limiter(limiter).cost(|_| 300).layer(http_client);
/// let response = client.ready().await?.call(Request::new(String::new())).await?;
/// if let Some(charge) = response.extensions().get::<ClientCharge>() {
///     charge.settle(12).await;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ClientCharge {
    permit: Arc<Mutex<Option<Permit>>>,
}

impl ClientCharge {
    pub(super) fn attach<B>(permit: Option<Permit>, mut response: Response<B>) -> Response<B> {
        if let Some(permit) = permit {
            response.extensions_mut().insert(ClientCharge { permit: Arc::new(Mutex::new(Some(permit))) });
        }
        response
    }

    /// Replaces the estimated cost by the true one, and releases permits. The second call has no effect.
    pub async fn settle(&self, true_cost: u64) -> Settlement {
        match self.take() {
            Some(permit) => permit.settle(true_cost).await,
            None => Settlement { overrun: 0 },
        }
    }

    /// Refunds everything: the server has not done what was asked. The second call has no effect.
    pub fn refund(&self) {
        if let Some(permit) = self.take() {
            permit.refund();
        }
    }

    fn take(&self) -> Option<Permit> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for ClientCharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCharge").finish_non_exhaustive()
    }
}
