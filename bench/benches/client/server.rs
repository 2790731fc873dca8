//! A limited server on a thread of its own, which records when requests arrive.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::get;
use tollgate::policy::model::IdentitySource;
use tollgate::{AlgorithmKind, Limiter, rule};

/// A request at the server.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    /// The second of a window of ten seconds, as a fixed window counts it.
    pub(crate) second: usize,
    pub(crate) is_accepted: bool,
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
}

impl Server {
    /// Starts a server that limits each `x-api-key`.
    pub(crate) fn start(limit: &'static str, algorithm: AlgorithmKind) -> Server {
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let (sender, receiver) = mpsc::channel();
        let record = Arc::clone(&arrivals);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                axum::serve(listener, app(limit, algorithm, record)).await.unwrap();
            });
        });
        Server { address: receiver.recv().unwrap(), arrivals }
    }

    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap().clone()
    }
}

fn app(limit: &str, algorithm: AlgorithmKind, arrivals: Arc<Mutex<Vec<Arrival>>>) -> Router {
    let limiter = Limiter::builder()
        .identity("key", IdentitySource::Header("x-api-key".to_owned()))
        .rule(rule("per-key").per("key").limit(limit).algorithm(algorithm))
        .build()
        .unwrap();
    let record = move |request: Request, next: Next| {
        let arrivals = Arc::clone(&arrivals);
        async move {
            let at = Instant::now();
            let second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() % 10;
            let response = next.run(request).await;
            let is_accepted = response.status().is_success();
            arrivals.lock().unwrap().push(Arrival { at, second: second as usize, is_accepted });
            response
        }
    };
    Router::new().route("/", get(async || "hello")).layer(limiter.layer()).layer(from_fn(record))
}
