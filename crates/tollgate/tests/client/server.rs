//! A server as a service: it records when requests arrive, and answers as a function says.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::time::Instant;
use tollgate::client::{ClientLayer, CloneBody};
use tollgate::tower::BoxError;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt};

pub(crate) type Body = Full<Bytes>;
pub(crate) type Outcome = Result<Response<Body>, BoxError>;

type Answer = dyn Fn(usize, &Request<Body>) -> Outcome + Send + Sync;

/// Clones share what they recorded.
#[derive(Clone)]
pub(crate) struct Server {
    answer: Arc<Answer>,
    started: Instant,
    arrived: Arc<Mutex<Vec<(Duration, String)>>>,
}

impl Server {
    /// Creates a server. `answer` gets the number of the request, from 0.
    pub(crate) fn new(answer: impl Fn(usize, &Request<Body>) -> Outcome + Send + Sync + 'static) -> Server {
        Server { answer: Arc::new(answer), started: Instant::now(), arrived: Arc::default() }
    }

    /// Answers the first request with these fields and status, and all others with 200 and no fields.
    pub(crate) fn first(status: u16, fields: &'static [(&'static str, &'static str)]) -> Server {
        Server::new(move |number, _| if number == 0 { reply(status, fields) } else { reply(200, &[]) })
    }

    /// Returns the times at which requests arrived, in milliseconds, and their paths.
    pub(crate) fn arrived(&self) -> Vec<(u64, String)> {
        let arrived = self.arrived.lock().unwrap();
        arrived.iter().map(|(at, path)| (u64::try_from(at.as_millis()).unwrap(), path.clone())).collect()
    }

    pub(crate) fn arrived_ms(&self) -> Vec<u64> {
        self.arrived().into_iter().map(|(at_ms, _)| at_ms).collect()
    }
}

impl Service<Request<Body>> for Server {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = std::future::Ready<Outcome>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut arrived = self.arrived.lock().unwrap();
        let number = arrived.len();
        arrived.push((self.started.elapsed(), request.uri().path().to_owned()));
        drop(arrived);
        std::future::ready((self.answer)(number, &request))
    }
}

pub(crate) fn reply(status: u16, fields: &[(&str, &str)]) -> Outcome {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    Ok(response.body(Body::default()).unwrap())
}

/// A client of a server, with a layer.
#[derive(Clone)]
pub(crate) struct Client {
    service: BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>,
}

impl Client {
    pub(crate) fn new<C>(layer: &ClientLayer<C>, server: &Server) -> Client
    where
        C: CloneBody<Body> + Clone + Send + Sync + 'static,
    {
        Client::of(layer, server.clone())
    }

    pub(crate) fn of<C, S>(layer: &ClientLayer<C>, service: S) -> Client
    where
        C: CloneBody<Body> + Clone + Send + Sync + 'static,
        S: Service<Request<Body>, Response = Response<Body>, Error = BoxError> + Clone + Send + Sync + 'static,
        S::Future: Send,
    {
        Client { service: BoxCloneSyncService::new(layer.layer(service)) }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Outcome {
        self.service.clone().ready().await?.call(request).await
    }

    pub(crate) async fn get(&self, url: &str) -> Outcome {
        self.send(Request::get(url).body(Body::default()).unwrap()).await
    }

    /// Sends a GET request, and returns its status.
    pub(crate) async fn status(&self, url: &str) -> u16 {
        self.get(url).await.unwrap().status().as_u16()
    }
}
