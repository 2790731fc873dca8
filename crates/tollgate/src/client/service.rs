use std::borrow::Cow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use http::request::Parts;
use http::{Request, Response, header};
use tokio::time::Instant;
use tollgate_policy::Request as PolicyRequest;
use tollgate_store::TokioTimer;
use tower_service::Service;

use super::charge::ClientCharge;
use super::destination::Destination;
use super::error::ClientError;
use super::layer::{ClientOptions, CloneBody};
use super::pace::{AnswerKind, Departure};
use super::retry::{answer_of, backoff, is_idempotent, is_transient};
use super::server_hint::ServerHint;
use crate::permit::DelayedPermit;
use crate::tower::{BoxError, HeaderLines, policy_request};

/// A client whose requests are paced, made by a [`ClientLayer`](super::ClientLayer).
///
/// It is always ready: requests wait in the queue of their key, not in `poll_ready`.
#[derive(Clone)]
pub struct PacedClient<Inner, C = super::EmptyBodies> {
    pub(super) inner: Inner,
    pub(super) options: Arc<ClientOptions>,
    pub(super) bodies: C,
}

/// The response to a request, or why there is none.
pub struct ClientFuture<Out> {
    inner: Pin<Box<dyn Future<Output = Result<Response<Out>, BoxError>> + Send>>,
}

impl<Inner, C, In, Out> Service<Request<In>> for PacedClient<Inner, C>
where
    Inner: Service<Request<In>, Response = Response<Out>> + Clone + Send + 'static,
    Inner::Future: Send,
    Inner::Error: Into<BoxError>,
    C: CloneBody<In> + Clone + Send + 'static,
    In: Send + 'static,
    Out: Send + 'static,
{
    type Response = Response<Out>;
    type Error = BoxError;
    type Future = ClientFuture<Out>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<In>) -> ClientFuture<Out> {
        let (options, bodies) = (Arc::clone(&self.options), self.bodies.clone());
        ClientFuture { inner: Box::pin(send(options, bodies, self.inner.clone(), request)) }
    }
}

/// Sends a request, and again if it may succeed later.
async fn send<Inner, C, In, Out>(
    options: Arc<ClientOptions>,
    bodies: C,
    mut inner: Inner,
    request: Request<In>,
) -> Result<Response<Out>, BoxError>
where
    Inner: Service<Request<In>, Response = Response<Out>>,
    Inner::Error: Into<BoxError>,
    C: CloneBody<In>,
{
    let (parts, mut body) = request.into_parts();
    let key = options.key_of(&parts).into_owned();
    let destination = options.destinations().get(&key);
    let began = Instant::now();
    destination.admit(began)?;
    let deadline = began + options.bounds.max_wait;
    let cost = options.cost.as_ref().map_or(1, |cost| cost(&parts));
    let retries = if options.may_retry(&parts) { options.retries } else { 0 };
    let mut head = Request::from_parts(parts, ());
    let mut previous = None;
    for attempt in 0.. {
        let next_body = if attempt < retries { bodies.clone_body(&body) } else { None };
        let next = next_body.map(|body| (head.clone(), body));
        // Reading the clock is a part of the layer's cost: the first attempt takes the time that was read.
        let now = (attempt == 0 && options.limiter.is_none()).then_some(began);
        let (departure, permit) = match turn(&options, &destination, &head, &key, cost, deadline, now).await {
            Ok(turn) => turn,
            Err(error) => return previous.unwrap_or_else(|| Err(error.into())),
        };
        let outcome = call(&mut inner, head.map(|()| body)).await;
        let answer = observe(&destination, departure, &outcome);
        let outcome = outcome.map(|response| ClientCharge::attach(permit, response));
        let Some((next_head, next_body)) = next.filter(|_| may_succeed_later(answer, &outcome)) else { return outcome };
        let (base, longest) = options.backoff;
        let Some(wait) = destination.retry(|random| backoff(attempt, base, longest, random)) else { return outcome };
        if Instant::now() + wait > deadline {
            return outcome;
        }
        // If the next attempt cannot take place, the caller gets this outcome.
        previous = Some(outcome);
        tokio::time::sleep(wait).await;
        (head, body) = (next_head, next_body);
    }
    unreachable!("the last attempt returns")
}

/// Waits for the client's own limiter, and then for the turn of this request at its destination.
async fn turn(
    options: &ClientOptions,
    destination: &Arc<Destination>,
    head: &Request<()>,
    key: &str,
    cost: u64,
    deadline: Instant,
    now: Option<Instant>,
) -> Result<(Departure, Option<crate::Permit>), ClientError> {
    let permit = match &options.limiter {
        None => None,
        Some(limiter) => {
            let (headers, identities) = (HeaderLines::of(head), [(DESTINATION, key)]);
            let request = PolicyRequest { identities: &identities, cost, ..policy_request(head, &headers, None) };
            let left = deadline.saturating_duration_since(Instant::now());
            Some(
                limiter
                    .acquire_in_queue(&request, left, TokioTimer)
                    .await
                    .map_err(ClientError::Limited)?
                    .refund_on_drop(),
            )
        }
    };
    let departure = destination.depart(deadline, now).await?;
    Ok((departure, permit.map(DelayedPermit::keep)))
}

/// The identity of a request that the client's policy sees as the key of this layer.
const DESTINATION: &str = "destination";

async fn call<Inner, In, Out>(inner: &mut Inner, request: Request<In>) -> Result<Response<Out>, BoxError>
where
    Inner: Service<Request<In>, Response = Response<Out>>,
    Inner::Error: Into<BoxError>,
{
    poll_fn(|context| inner.poll_ready(context)).await.map_err(Into::into)?;
    inner.call(request).await.map_err(Into::into)
}

fn observe<Out>(
    destination: &Destination,
    departure: Departure,
    outcome: &Result<Response<Out>, BoxError>,
) -> AnswerKind {
    let (answer, hint) = match outcome {
        Ok(response) => (answer_of(response), ServerHint::from_headers_at(response.headers(), SystemTime::now)),
        Err(_) => (AnswerKind::Failed, ServerHint::default()),
    };
    destination.observe(departure, answer, &hint);
    answer
}

fn may_succeed_later<Out>(answer: AnswerKind, outcome: &Result<Response<Out>, BoxError>) -> bool {
    match outcome {
        Ok(response) => answer == AnswerKind::Refused || is_transient(response.status()),
        Err(_) => true,
    }
}

impl ClientOptions {
    /// The key of a request: by the application's function, else the host and port.
    fn key_of<'a>(&self, parts: &'a Parts) -> Cow<'a, str> {
        if let Some(key) = &self.key {
            return key(parts).into();
        }
        let host = || parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        parts.uri.authority().map(|authority| authority.as_str()).or_else(host).unwrap_or_default().into()
    }

    fn may_retry(&self, parts: &Parts) -> bool {
        match &self.may_retry {
            Some(may_retry) => may_retry(parts),
            None => is_idempotent(&parts.method, &parts.headers),
        }
    }
}

impl<Out> Future for ClientFuture<Out> {
    type Output = Result<Response<Out>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.inner.as_mut().poll(context)
    }
}

impl<Inner: fmt::Debug, C> fmt::Debug for PacedClient<Inner, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedClient").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<Out> fmt::Debug for ClientFuture<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientFuture").finish_non_exhaustive()
    }
}
