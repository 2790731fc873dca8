use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::access::{AccessToken, CallerAccess};
use crate::engine::Engine;
use crate::grpc::GrpcFrontEnd;
use crate::http::{self, Admin, ReloadRequest};
use crate::listen::{
    ActivityStream, ConnectionLimits, Descriptors, Encryption, For, Granted, IdleTimer, ShareLimits, Shares,
    WithDeadline, accept,
};
use crate::resp::{self, RespGate, RespLimits};

/// How long requests under way may take to finish once the service stops.
const DRAIN_AT_MOST: Duration = Duration::from_secs(10);

/// Where to listen. `None` turns a listener off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listeners {
    /// Where callers ask.
    pub http: Option<SocketAddr>,
    /// Where gateways ask.
    pub grpc: Option<SocketAddr>,
    /// Where clients of Redis ask.
    pub resp: Option<SocketAddr>,
    /// Where operators look. Without a token it must be a loopback address.
    pub admin: Option<SocketAddr>,
}

/// One of the listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// Where callers ask.
    Http,
    /// Where gateways ask.
    Grpc,
    /// Where clients of Redis ask.
    Resp,
    /// Where operators look.
    Admin,
}

/// Why the service cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address cannot be had.
    #[error("cannot listen on {address} for {}: {source}", .listener.name())]
    Address {
        /// Whose address.
        listener: Listener,
        /// Which address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The admin listener would be open to others than this machine.
    #[error(
        "cannot listen on {0} for admin: it must be a loopback address such as 127.0.0.1:9090, unless there is an admin token"
    )]
    AdminExposed(SocketAddr),
}

/// A service whose listeners accept.
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    bound: Vec<(Listener, SocketAddr, TcpListener)>,
    limits: ConnectionLimits,
    encryption: Encryption,
    admin: AdminAccess,
    callers: CallerAccess,
}

/// Who may use the admin listener, and what for.
#[derive(Debug, Default)]
pub struct AdminAccess {
    /// What must be brought. Without it, whoever is on this machine may.
    pub token: Option<AccessToken>,
    /// Who reads the policy again when an operator asks for it.
    pub reloads: Option<mpsc::Sender<ReloadRequest>>,
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
        Server::bind_with(listeners, AdminAccess::default(), engine).await
    }

    /// Like [`Server::bind`], with an admin listener that may be open to other machines.
    pub async fn bind_with(listeners: Listeners, admin: AdminAccess, engine: Engine) -> Result<Server, BindError> {
        let exposed = listeners.admin.filter(|address| !address.ip().to_canonical().is_loopback());
        if let Some(address) = exposed.filter(|_| admin.token.is_none()) {
            return Err(BindError::AdminExposed(address));
        }
        let mut bound = Vec::new();
        let wanted = [
            (Listener::Http, listeners.http),
            (Listener::Grpc, listeners.grpc),
            (Listener::Resp, listeners.resp),
            (Listener::Admin, listeners.admin),
        ];
        for (listener, address) in wanted {
            let Some(address) = address else { continue };
            let (address, socket) = bind(address).map_err(|source| BindError::Address { listener, address, source })?;
            bound.push((listener, address, socket));
        }
        let (limits, encryption) = (ConnectionLimits::default(), Encryption::default());
        Ok(Server { engine: Arc::new(engine), bound, limits, encryption, admin, callers: CallerAccess::default() })
    }

    /// What decides, for whoever replaces its policy.
    #[must_use]
    pub fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine)
    }

    /// Grants other connections than by default.
    #[must_use]
    pub fn with_limits(self, limits: ConnectionLimits) -> Server {
        Server { limits, ..self }
    }

    /// Admits other callers than every program that reaches a listener.
    #[must_use]
    pub fn with_callers(self, callers: CallerAccess) -> Server {
        Server { callers, ..self }
    }

    /// Speaks TLS, and nothing else, on every listener.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(self, tls: crate::listen::Tls) -> Server {
        Server { encryption: Encryption { tls: Some(tls), ..self.encryption }, ..self }
    }

    /// The listeners that accept, with the addresses they really have.
    pub fn addresses(&self) -> impl Iterator<Item = (Listener, SocketAddr)> {
        self.bound.iter().map(|&(listener, address, _)| (listener, address))
    }

    /// Serves until `stop` is ready; then accepts nobody any more, and returns
    /// when the requests under way are answered or ten seconds have passed.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Drained {
        let (stopper, stopped) = watch::channel(false);
        let shares = Shares::new(ShareLimits::default(), self.engine.share_metrics());
        let descriptors = Descriptors::of(self.limits.descriptors);
        // All before the first accepts: who looks at the metrics then sees every listener in them.
        let accepting: Vec<(Listener, TcpListener, Granted)> = self
            .bound
            .into_iter()
            .map(|(listener, _, socket)| {
                let granted = Granted {
                    limits: self.limits,
                    encryption: self.encryption.clone().speaking(listener.protocols()),
                    metrics: self.engine.connection_metrics(listener.name()),
                    observer: Arc::clone(self.engine.observer()),
                    listener: listener.name(),
                    shares: shares.clone(),
                    descriptors: descriptors.clone(),
                    used_for: if listener == Listener::Admin { For::Operators } else { For::Callers },
                };
                (listener, socket, granted)
            })
            .collect();
        let admin =
            Admin { token: self.admin.token, reloads: self.admin.reloads, ..Admin::new(self.engine, stopped.clone()) };
        let mut listeners = JoinSet::new();
        for (listener, socket, granted) in accepting {
            let (admin, callers) = (admin.clone(), self.callers.clone());
            listeners.spawn(serve_listener(listener, socket, granted, admin, callers, stopped.clone()));
        }
        stop.await;
        stopper.send_replace(true);
        match tokio::time::timeout(DRAIN_AT_MOST, listeners.join_all()).await {
            Ok(_) => Drained::Completely,
            Err(_) => Drained::CutOff,
        }
    }
}

/// How many connections may wait to be accepted: as many as a gateway opens at once when it starts. Without a
/// place there, a client tries again only after a second. The system may allow fewer (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;

fn bind(address: SocketAddr) -> io::Result<(SocketAddr, TcpListener)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Elsewhere than on Unix this would let another program listen on the same port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    Ok((listener.local_addr()?, listener))
}

/// Gives each connection of a listener to its front end.
async fn serve_listener(
    listener: Listener,
    socket: TcpListener,
    granted: Granted,
    admin: Admin,
    callers: CallerAccess,
    stopped: watch::Receiver<bool>,
) {
    let limits = granted.limits;
    let engine = Arc::clone(&admin.engine);
    let routes = match listener {
        Listener::Http => http::public(&engine, callers),
        Listener::Admin => http::admin_routes(admin),
        Listener::Grpc => {
            let front_end = GrpcFrontEnd::new(&engine, callers.token, stopped.clone());
            return accept(socket, granted, stopped, move |connection| {
                front_end.clone().serve_connection(connection, limits)
            })
            .await;
        }
        Listener::Resp => {
            return accept(socket, granted, stopped, move |connection| {
                let (engine, token) = (Arc::clone(&engine), callers.token.clone());
                async move {
                    let idle = IdleTimer::default();
                    let gate = token.map(|token| RespGate { token, address: connection.address.ip() });
                    let stream = ActivityStream::new(connection.stream, idle.clone());
                    let resp_limits = RespLimits {
                        command_at_most: limits.body_timeout,
                        answers_at_most: limits.answer_timeout,
                        ..RespLimits::default()
                    };
                    let (share, stopped) = (connection.share, connection.stopped);
                    let served = resp::serve_with_share(stream, engine, resp_limits, gate, share, stopped);
                    // Whoever breaks a connection off knows it.
                    WithDeadline::new(served, idle.wait(limits.idle_timeout)).await;
                }
            })
            .await;
        }
    };
    accept(socket, granted, stopped, move |connection| http::serve_connection(connection, routes.clone(), limits))
        .await;
}

impl Listener {
    /// Its name towards people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Listener::Http => "http",
            Listener::Grpc => "grpc",
            Listener::Resp => "resp",
            Listener::Admin => "admin",
        }
    }

    /// What it speaks within TLS. A client of gRPC hangs up on whoever does not agree to HTTP/2.
    const fn protocols(self) -> &'static [&'static [u8]] {
        match self {
            Listener::Http | Listener::Admin => &[b"http/1.1"],
            Listener::Grpc => &[b"h2"],
            Listener::Resp => &[],
        }
    }

    /// The scheme of its addresses, and that of its encrypted ones.
    #[must_use]
    pub const fn schemes(self) -> (&'static str, &'static str) {
        match self {
            Listener::Http | Listener::Grpc | Listener::Admin => ("http", "https"),
            Listener::Resp => ("redis", "rediss"),
        }
    }
}
