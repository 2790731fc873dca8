use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::engine::Engine;
use crate::grpc::GrpcFrontEnd;
use crate::http;

/// How long requests under way may take to finish once the service stops.
const DRAIN_AT_MOST: Duration = Duration::from_secs(10);

/// Where to listen. `None` turns a listener off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listeners {
    /// Where callers ask.
    pub http: Option<SocketAddr>,
    /// Where gateways ask.
    pub grpc: Option<SocketAddr>,
    /// Where operators look. It asks nobody who they are, so it must be a loopback address.
    pub admin: Option<SocketAddr>,
}

/// One of the listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// Where callers ask.
    Http,
    /// Where gateways ask.
    Grpc,
    /// Where operators look.
    Admin,
}

/// Why the service cannot listen.
#[derive(Debug)]
#[non_exhaustive]
pub enum BindError {
    /// The address cannot be had.
    Address {
        /// Whose address.
        listener: Listener,
        /// Which address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The admin listener would be open to others than this machine.
    AdminExposed(SocketAddr),
}

/// A service whose listeners accept.
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    bound: Vec<(Listener, SocketAddr, TcpListener)>,
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Every request under way was answered.
    Completely,
    /// Some took too long and were cut off.
    CutOff,
}

impl Server {
    /// Opens the listeners. From here on connections are accepted; they are
    /// answered once the service runs.
    pub async fn bind(listeners: Listeners, engine: Engine) -> Result<Server, BindError> {
        if let Some(address) = listeners.admin.filter(|address| !address.ip().to_canonical().is_loopback()) {
            return Err(BindError::AdminExposed(address));
        }
        let mut bound = Vec::new();
        let wanted =
            [(Listener::Http, listeners.http), (Listener::Grpc, listeners.grpc), (Listener::Admin, listeners.admin)];
        for (listener, address) in wanted {
            let Some(address) = address else { continue };
            let (address, socket) =
                bind(address).await.map_err(|source| BindError::Address { listener, address, source })?;
            bound.push((listener, address, socket));
        }
        Ok(Server { engine: Arc::new(engine), bound })
    }

    /// The listeners that accept, with the addresses they really have.
    pub fn addresses(&self) -> impl Iterator<Item = (Listener, SocketAddr)> {
        self.bound.iter().map(|&(listener, address, _)| (listener, address))
    }

    /// Serves until `stop` is ready; then accepts nobody any more, and returns
    /// when the requests under way are answered or ten seconds have passed.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Drained {
        let (stopper, stopped) = watch::channel(false);
        let mut listeners = JoinSet::new();
        for (listener, _, socket) in self.bound {
            match listener {
                Listener::Http => {
                    listeners.spawn(serve_one(socket, http::public_router(&self.engine), stopped.clone()));
                }
                Listener::Grpc => {
                    let front_end = GrpcFrontEnd::new(&self.engine, stopped.clone());
                    listeners.spawn(front_end.serve(socket));
                }
                Listener::Admin => {
                    listeners.spawn(serve_one(socket, http::admin_router(&self.engine), stopped.clone()));
                }
            }
        }
        stop.await;
        stopper.send_replace(true);
        match tokio::time::timeout(DRAIN_AT_MOST, listeners.join_all()).await {
            Ok(_) => Drained::Completely,
            Err(_) => Drained::CutOff,
        }
    }
}

async fn bind(address: SocketAddr) -> io::Result<(SocketAddr, TcpListener)> {
    let socket = TcpListener::bind(address).await?;
    Ok((socket.local_addr()?, socket))
}

async fn serve_one(socket: TcpListener, router: Router, mut stopped: watch::Receiver<bool>) -> io::Result<()> {
    // Answers are small and somebody waits for each: never hold one back to fill a packet.
    let socket = socket.tap_io(|connection| {
        let _ = connection.set_nodelay(true);
    });
    let until_stopped = async move {
        // An error means that the service is gone, which is as good a reason to stop.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    axum::serve(socket, router).with_graceful_shutdown(until_stopped).await
}

impl Listener {
    /// Its name towards people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Listener::Http => "http",
            Listener::Grpc => "grpc",
            Listener::Admin => "admin",
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::Address { listener, address, source } => {
                write!(f, "cannot listen on {address} for {}: {source}", listener.name())
            }
            BindError::AdminExposed(address) => {
                write!(f, "cannot listen on {address} for admin: it must be a loopback address such as 127.0.0.1:9090")
            }
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BindError::Address { source, .. } => Some(source),
            BindError::AdminExposed(_) => None,
        }
    }
}
