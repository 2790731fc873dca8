//! What a client does when it is refused.

use std::time::Duration;

use tollgate::client::ClientLayer;
use tollgate::tower::BoxError;
use tower::{Layer, Service, ServiceExt, service_fn};

#[derive(Clone, Copy)]
pub(crate) enum Strategy {
    ClientLayer,
    /// Waits a second after each refusal.
    FixedBackoff,
    /// Sends again at once.
    PlainRetry,
}

/// The wait of the fixed backoff: `Retry-After` of a limit by the second.
const BACKOFF: Duration = Duration::from_secs(1);

impl Strategy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Strategy::ClientLayer => "client layer",
            Strategy::FixedBackoff => "fixed backoff",
            Strategy::PlainRetry => "plain retry",
        }
    }

    /// Sends one request after the other, until the task is aborted.
    pub(crate) async fn run(self, client: reqwest::Client, url: String, key: String) {
        let request = || http::Request::get(&url).header("x-api-key", &key).body(reqwest::Body::default()).unwrap();
        if matches!(self, Strategy::ClientLayer) {
            let mut layered = ClientLayer::new().layer(as_service(client));
            loop {
                let response = layered.ready().await.unwrap().call(request()).await;
                if let Ok(response) = response {
                    let _ = reqwest::Response::from(response).bytes().await;
                }
            }
        }
        loop {
            let response = client.execute(request().try_into().unwrap()).await.unwrap();
            let is_refused = !response.status().is_success();
            let _ = response.bytes().await;
            if is_refused && matches!(self, Strategy::FixedBackoff) {
                tokio::time::sleep(BACKOFF).await;
            }
        }
    }
}

type HttpRequest = http::Request<reqwest::Body>;
type HttpResponse = http::Response<reqwest::Body>;

/// Makes a service of reqwest's client.
pub(crate) fn as_service(
    client: reqwest::Client,
) -> impl Service<HttpRequest, Response = HttpResponse, Error = BoxError, Future: Send> + Clone + Send + 'static {
    service_fn(move |request: HttpRequest| {
        let client = client.clone();
        async move { Ok(client.execute(request.try_into()?).await.map(HttpResponse::from)?) }
    })
}
