use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Extensions, Request, Response};
use http_body::Body;
use tollgate_store::{Timer, TokioTimer};
use tower_service::Service;

use super::app_values::AppValues;
use super::guard::{Guard, TrueCost};
use super::layer::Options;
use super::refusal::{no_peer_address, refusal};
use super::request::{HeaderLines, is_grpc, policy_request};
use super::response::{BoxError, Pending, ResponseFuture, TollgateBody, put_fields};
use crate::limiter::{AsyncLimiter, CheckMode};
use crate::permit::{DelayedPermit, Permit};
use crate::verdict::{Action, Verdict};

/// A service whose requests a limiter decides first.
#[derive(Clone)]
pub struct Tollgate<Inner> {
    pub(super) inner: Inner,
    pub(super) options: Arc<Options>,
}

impl<Inner, In, Out> Service<Request<In>> for Tollgate<Inner>
where
    Inner: Service<Request<In>, Response = Response<Out>> + Clone + Send + 'static,
    Inner::Future: Send,
    Inner::Error: Send,
    In: Send + 'static,
    Out: Body<Data = Bytes> + Send + 'static,
    Out::Error: Into<BoxError>,
{
    type Response = Response<TollgateBody<Out>>;
    type Error = Inner::Error;
    type Future = ResponseFuture<Inner::Future, Out, Inner::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Inner::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<In>) -> Self::Future {
        let options = &self.options;
        let mut values = AppValues::default();
        if !options.functions.is_empty() {
            (request, values) = options.functions.read(request);
        }
        let peer = (options.peer_address)(request.extensions());
        if peer.is_none() && options.limiter(&values).needs_client_ip() && !values.has_client_ip() {
            return ResponseFuture::ready(no_peer_address(is_grpc(request.headers())));
        }
        let Some((verdict, permit)) = options.check_now(&request, peer, &values) else {
            return self.call_later(request, peer, values, None);
        };
        if verdict.action() != Action::Allow {
            if !verdict.is_allowed() {
                return ResponseFuture::ready(options.refuse(&verdict, &request));
            }
            // A request that passes with a warning may be delayed too.
            if verdict.delay_ns() > 0 {
                return self.call_later(request, peer, values, Some((verdict, permit)));
            }
        }
        let pending = let_pass(verdict, permit, &values, request.extensions_mut());
        ResponseFuture::calling(self.inner.call(request), pending)
    }
}

impl<Inner> Tollgate<Inner> {
    /// Calls the service after waiting: for a store that is not in this process, or for the delay of the verdict.
    /// `known` is the verdict if there is one already.
    fn call_later<In, Out>(
        &mut self,
        request: Request<In>,
        peer: Option<IpAddr>,
        values: AppValues,
        known: Option<(Verdict, Option<Permit>)>,
    ) -> ResponseFuture<Inner::Future, Out, Inner::Error>
    where
        Inner: Service<Request<In>, Response = Response<Out>> + Clone + Send + 'static,
        Inner::Future: Send,
        Inner::Error: Send,
        In: Send + 'static,
        Out: Send + 'static,
    {
        let mut inner = self.take_ready();
        let options = Arc::clone(&self.options);
        ResponseFuture::later(async move {
            // The body need not be `Sync`, so only the head is borrowed across the call of the store.
            let (parts, body) = request.into_parts();
            let mut head = Request::from_parts(parts, ());
            let (verdict, permit) = match known {
                Some(known) => known,
                None => options.check(&head, peer, &values).await,
            };
            if !verdict.is_allowed() {
                return Ok(options.refuse(&verdict, &head));
            }
            let permit = wait_for_delay(&verdict, permit).await;
            let pending = let_pass(verdict, permit, &values, head.extensions_mut());
            ResponseFuture::calling(inner.call(head.map(|()| body)), pending).await
        })
    }

    /// Takes the service that is ready, and leaves a clone, which must be polled for readiness first.
    fn take_ready(&mut self) -> Inner
    where
        Inner: Clone,
    {
        let clone = self.inner.clone();
        std::mem::replace(&mut self.inner, clone)
    }
}

/// Waits for the delay of the verdict. If the future is dropped meanwhile, all charges are refunded.
async fn wait_for_delay(verdict: &Verdict, permit: Option<Permit>) -> Option<Permit> {
    let delay_ns = verdict.delay_ns();
    if delay_ns == 0 {
        return permit;
    }
    let delayed = permit.map(Permit::refund_on_drop);
    TokioTimer.sleep(delay_ns).await;
    delayed.map(DelayedPermit::keep)
}

/// Inserts the verdict into the request's extensions, and returns what its response needs.
fn let_pass(verdict: Verdict, permit: Option<Permit>, values: &AppValues, extensions: &mut Extensions) -> Pending {
    let fields = verdict.header_fields();
    let guard = permit.map(|permit| {
        let true_cost = TrueCost::of(extensions);
        // Only a cost that the application has set, or the variable cost of a rule, is settled.
        let can_settle = values.has_cost() || has_variable_cost(&verdict);
        Box::new(Guard::new(permit, can_settle.then_some(true_cost)))
    });
    // An outer layer has inserted its verdict.
    let is_inner = extensions.insert(verdict).is_some();
    Pending { fields, is_inner, guard }
}

/// Whether a matched rule has an `estimate` or reads its cost from a header.
fn has_variable_cost(verdict: &Verdict) -> bool {
    verdict.states().iter().any(|state| verdict.policy.rules[state.rule as usize].variable_cost)
}

/// A cost that the application has set may have to be settled, which needs a receipt.
fn check_mode(values: &AppValues) -> CheckMode {
    if values.has_cost() { CheckMode::Permit } else { CheckMode::PermitIfNeeded }
}

impl Options {
    /// The limiter that decides a request: the one that the application selected, else the layer's.
    #[inline]
    fn limiter<'a>(&'a self, values: &'a AppValues) -> &'a AsyncLimiter {
        values.limiter.as_ref().unwrap_or(&self.limiter)
    }

    async fn check(
        &self,
        request: &Request<()>,
        peer: Option<IpAddr>,
        values: &AppValues,
    ) -> (Verdict, Option<Permit>) {
        let (headers, identities) = (HeaderLines::of(request), values.identities());
        let request = values.add_to(policy_request(request, &headers, peer), &identities);
        self.limiter(values).check_in_mode(&request, check_mode(values), &mut None).await
    }

    /// The same without waiting, if the store is in this process.
    #[inline]
    fn check_now<In>(
        &self,
        request: &Request<In>,
        peer: Option<IpAddr>,
        values: &AppValues,
    ) -> Option<(Verdict, Option<Permit>)> {
        let (headers, identities) = (HeaderLines::of(request), values.identities());
        let request = values.add_to(policy_request(request, &headers, peer), &identities);
        self.limiter(values).check_in_mode_sync(&request, check_mode(values), &mut None)
    }

    fn refuse<In, Out>(&self, verdict: &Verdict, request: &Request<In>) -> Response<TollgateBody<Out>> {
        let default = refusal(verdict, is_grpc(request.headers()));
        let mut response = match &self.on_refused {
            Some(respond) => respond(verdict, default).map(TollgateBody::custom),
            None => default.map(TollgateBody::refused),
        };
        // An outer layer has let the request pass, and inserted its verdict.
        let is_inner = request.extensions().get::<Verdict>().is_some();
        put_fields(verdict.header_fields(), is_inner, &mut response);
        response
    }
}

impl<Inner: fmt::Debug> fmt::Debug for Tollgate<Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tollgate").field("inner", &self.inner).finish_non_exhaustive()
    }
}
