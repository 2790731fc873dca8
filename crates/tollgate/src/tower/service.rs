use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Extensions, Request, Response};
use tollgate_store::{Timer, TokioTimer};
use tower_service::Service;

use super::guard::{Guard, TrueCost};
use super::layer::Options;
use super::refusal::{no_peer_address, refusal};
use super::request::{HeaderLines, described, is_grpc};
use super::response::{ResponseFuture, TollgateBody, Under, put_fields};
use crate::limiter::Ask;
use crate::permit::{Permit, Waiting};
use crate::verdict::{Action, Verdict};

/// A service behind a limiter.
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
    Out: http_body::Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<TollgateBody<Out>>;
    type Error = Inner::Error;
    type Future = ResponseFuture<Inner::Future, Out, Inner::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Inner::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<In>) -> Self::Future {
        let options = &self.options;
        let peer = (options.peer_address)(request.extensions());
        if peer.is_none() && options.limiter.needs_client_ip() {
            return ResponseFuture::ready(no_peer_address(is_grpc(request.headers())));
        }
        let Some((verdict, permit)) = options.ask_now(&request, peer) else {
            return self.call_later(request, peer, None);
        };
        if verdict.action() != Action::Allow {
            if !verdict.is_allowed() {
                return ResponseFuture::ready(options.refuse(&verdict, &request));
            }
            // One that passes with a warning may have to wait too.
            if verdict.delay_ns() > 0 {
                return self.call_later(request, peer, Some((verdict, permit)));
            }
        }
        let under = let_pass(verdict, permit, request.extensions_mut());
        ResponseFuture::calling(self.inner.call(request), under)
    }
}

impl<Inner> Tollgate<Inner> {
    /// For what has to be waited for: a store that is not here, or a turn that
    /// has not come. `known` is the answer where there is one already.
    fn call_later<In, Out>(
        &mut self,
        request: Request<In>,
        peer: Option<IpAddr>,
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
            // The body need not be `Sync`, so only the rest is borrowed while the store is asked.
            let (parts, body) = request.into_parts();
            let mut head = Request::from_parts(parts, ());
            let (verdict, permit) = match known {
                Some(known) => known,
                None => options.ask(&head, peer).await,
            };
            if !verdict.is_allowed() {
                return Ok(options.refuse(&verdict, &head));
            }
            let permit = wait_for_turn(&verdict, permit).await;
            let under = let_pass(verdict, permit, head.extensions_mut());
            ResponseFuture::calling(inner.call(head.map(|()| body)), under).await
        })
    }

    /// The service that said it was ready; a clone, which must be asked first, takes its place.
    fn take_ready(&mut self) -> Inner
    where
        Inner: Clone,
    {
        let clone = self.inner.clone();
        std::mem::replace(&mut self.inner, clone)
    }
}

/// Waits as long as the verdict says. A caller that goes away meanwhile gives everything back.
async fn wait_for_turn(verdict: &Verdict, permit: Option<Permit>) -> Option<Permit> {
    let delay_ns = verdict.delay_ns();
    if delay_ns == 0 {
        return permit;
    }
    let waiting = permit.map(Permit::refunded_unless_kept);
    TokioTimer.sleep(delay_ns).await;
    waiting.map(Waiting::keep)
}

/// Makes the request ready for the service, and remembers what its response must say.
fn let_pass(verdict: Verdict, permit: Option<Permit>, extensions: &mut Extensions) -> Under {
    let fields = verdict.header_fields();
    let guard = permit.map(|permit| {
        let true_cost = TrueCost::of(extensions);
        // Requests that were not estimated have nothing to do with what a handler says they cost.
        let heard = estimates(&verdict).then_some(true_cost);
        Box::new(Guard::new(permit, verdict.clone(), heard))
    });
    // A layer further out has left its verdict there.
    let is_inner = extensions.insert(verdict).is_some();
    Under { fields, is_inner, guard }
}

/// Whether a rule that the request met guesses what it costs.
fn estimates(verdict: &Verdict) -> bool {
    verdict.states().iter().any(|state| verdict.policy.rules[state.rule as usize].variable_cost)
}

impl Options {
    async fn ask(&self, request: &Request<()>, peer: Option<IpAddr>) -> (Verdict, Option<Permit>) {
        let headers = HeaderLines::of(request);
        let request = described(request, &headers, peer);
        self.limiter.ask(&request, Ask::AdmitWhereNeeded, &mut None).await
    }

    /// The same at once, if the store is in this process.
    #[inline]
    fn ask_now<In>(&self, request: &Request<In>, peer: Option<IpAddr>) -> Option<(Verdict, Option<Permit>)> {
        let headers = HeaderLines::of(request);
        self.limiter.ask_now(&described(request, &headers, peer), Ask::AdmitWhereNeeded, &mut None)
    }

    fn refuse<In, Out>(&self, verdict: &Verdict, request: &Request<In>) -> Response<TollgateBody<Out>> {
        let mut response = match &self.on_refused {
            Some(respond) => respond(verdict).map(TollgateBody::refused),
            None => refusal(verdict, is_grpc(request.headers())),
        };
        // A layer further out has let the request pass, and left its verdict there.
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
