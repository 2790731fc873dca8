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
use crate::http::{self, AdminState, ReloadRequest};
use crate::listen::{
    ActivityStream, AddressShareLimits, AddressShares, ConnectionLimits, Descriptors, Encryption, HTTP_1_1, IdleTimer,
    ListenerConfig, ListenerUse, WithDeadline, accept,
};
use crate::resp::{self, RespAuth, RespLimits};

/// How long requests in flight may take once the service stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Where to listen. `None` turns a listener off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listeners {
    /// The HTTP API.
    pub http: Option<SocketAddr>,
    /// gRPC, for gateways.
    pub grpc: Option<SocketAddr>,
    /// RESP, for Redis clients.
    pub resp: Option<SocketAddr>,
    /// The admin API. Without a token it must be a loopback address.
    pub admin: Option<SocketAddr>,
}

/// One of the listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// The HTTP API.
    Http,
    /// gRPC, for gateways.
    Grpc,
    /// RESP, for Redis clients.
    Resp,
    /// The admin API.
    Admin,
}

/// Why the service cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address cannot be bound.
    #[error("cannot listen on {address} for {}: {source}", .listener.name())]
    Address {
        /// The listener.
        listener: Listener,
        /// Its address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The admin listener would be reachable from other machines.
    #[error(
        "cannot listen on {0} for admin: it must be a loopback address such as 127.0.0.1:9099, unless there is an admin token"
    )]
    AdminExposed(SocketAddr),
}

/// A service with bound listeners.
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    bound: Vec<(Listener, SocketAddr, TcpListener)>,
    limits: ConnectionLimits,
    encryption: Encryption,
    admin: AdminAccess,
    callers: CallerAccess,
}

/// Access to the admin listener.
#[derive(Debug, Default)]
pub struct AdminAccess {
    /// The token that callers must send. Without one, every user of this machine has access.
    pub token: Option<AccessToken>,
    /// Receives requests to reload the policy.
    pub reloads: Option<mpsc::Sender<ReloadRequest>>,
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Every request in flight was answered.
    Completely,
    /// Some requests took too long and were cut off.
    CutOff,
}

impl Server {
    /// Binds the listeners. Connections are accepted from here on, and served by [`serve`](Server::serve).
    pub async fn bind(listeners: Listeners, engine: Engine) -> Result<Server, BindError> {
        Server::bind_with(listeners, AdminAccess::default(), engine).await
    }

    /// Like [`Server::bind`], with admin access that may be open to other machines.
    pub async fn bind_with(listeners: Listeners, admin: AdminAccess, engine: Engine) -> Result<Server, BindError> {
        let exposed = listeners.admin.filter(|address| !address.ip().to_canonical().is_loopback());
        if let Some(address) = exposed.filter(|_| admin.token.is_none()) {
            return Err(BindError::AdminExposed(address));
        }
        let mut bound = Vec::new();
        let requested = [
            (Listener::Http, listeners.http),
            (Listener::Grpc, listeners.grpc),
            (Listener::Resp, listeners.resp),
            (Listener::Admin, listeners.admin),
        ];
        for (listener, address) in requested {
            let Some(address) = address else { continue };
            let (address, socket) = bind(address).map_err(|source| BindError::Address { listener, address, source })?;
            bound.push((listener, address, socket));
        }
        let (limits, encryption) = (ConnectionLimits::default(), Encryption::default());
        Ok(Server { engine: Arc::new(engine), bound, limits, encryption, admin, callers: CallerAccess::default() })
    }

    /// Returns the engine, for example to reload its policy.
    #[must_use]
    pub fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine)
    }

    /// Sets the connection limits.
    #[must_use]
    pub fn with_limits(self, limits: ConnectionLimits) -> Server {
        Server { limits, ..self }
    }

    /// Sets which callers are accepted.
    #[must_use]
    pub fn with_callers(self, callers: CallerAccess) -> Server {
        Server { callers, ..self }
    }

    /// Requires TLS on every listener.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(self, tls: crate::listen::Tls) -> Server {
        Server { encryption: Encryption { tls: Some(tls), ..self.encryption }, ..self }
    }

    /// Returns the bound listeners with their actual addresses.
    pub fn addresses(&self) -> impl Iterator<Item = (Listener, SocketAddr)> {
        self.bound.iter().map(|&(listener, address, _)| (listener, address))
    }

    /// Serves until `stop` is ready; then stops accepting, and returns when the requests in flight are answered or ten
    /// seconds have passed.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Drained {
        let (stopper, stopped) = watch::channel(false);
        let shares = AddressShares::new(AddressShareLimits::default(), self.engine.share_metrics());
        let descriptors = Descriptors::of(self.limits.descriptors);
        // Created before the first listener accepts, so that the metrics have every listener from the start.
        let accepting: Vec<(Listener, TcpListener, ListenerConfig)> = self
            .bound
            .into_iter()
            .map(|(listener, _, socket)| {
                let config = ListenerConfig {
                    limits: self.limits,
                    encryption: self.encryption.clone().with_protocols(listener.protocols()),
                    metrics: self.engine.connection_metrics(listener.name()),
                    observer: Arc::clone(self.engine.observer()),
                    listener,
                    shares: shares.clone(),
                    descriptors: descriptors.clone(),
                    used_for: if listener == Listener::Admin { ListenerUse::Admin } else { ListenerUse::Callers },
                };
                (listener, socket, config)
            })
            .collect();
        let admin = AdminState {
            token: self.admin.token,
            reloads: self.admin.reloads,
            ..AdminState::new(self.engine, stopped.clone())
        };
        let mut listeners = JoinSet::new();
        for (listener, socket, config) in accepting {
            let (admin, callers) = (admin.clone(), self.callers.clone());
            listeners.spawn(serve_listener(listener, socket, config, admin, callers, stopped.clone()));
        }
        stop.await;
        stopper.send_replace(true);
        match tokio::time::timeout(DRAIN_TIMEOUT, listeners.join_all()).await {
            Ok(_) => Drained::Completely,
            Err(_) => Drained::CutOff,
        }
    }
}

/// The accept backlog: as many connections as a gateway opens at once when it starts. A client that finds the backlog
/// full retries only after a second. The system may allow fewer (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;

fn bind(address: SocketAddr) -> io::Result<(SocketAddr, TcpListener)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // On other systems this would let another program listen on the same port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    Ok((listener.local_addr()?, listener))
}

/// Serves the connections of a listener with its front end.
async fn serve_listener(
    listener: Listener,
    socket: TcpListener,
    config: ListenerConfig,
    admin: AdminState,
    callers: CallerAccess,
    stopped: watch::Receiver<bool>,
) {
    let limits = config.limits;
    let engine = Arc::clone(&admin.engine);
    let routes = match listener {
        Listener::Http => http::public(&engine, callers),
        Listener::Admin => http::admin_routes(admin),
        Listener::Grpc => {
            let front_end = GrpcFrontEnd::new(&engine, callers.token, stopped.clone());
            return accept(socket, config, stopped, move |connection| {
                front_end.clone().serve_connection(connection, limits)
            })
            .await;
        }
        Listener::Resp => {
            return accept(socket, config, stopped, move |connection| {
                let (engine, token) = (Arc::clone(&engine), callers.token.clone());
                async move {
                    let idle = IdleTimer::default();
                    let auth = token.map(|token| RespAuth { token, address: connection.address.ip() });
                    let stream = ActivityStream::new(connection.stream, idle.clone());
                    let resp_limits = RespLimits {
                        command_timeout: limits.body_timeout,
                        reply_timeout: limits.answer_timeout,
                        ..RespLimits::default()
                    };
                    let (share, stopped) = (connection.share, connection.stopped);
                    let served = resp::serve_with_share(stream, engine, resp_limits, auth, share, stopped);
                    // A broken connection is not reported: the client notices it.
                    WithDeadline::new(served, idle.wait(limits.idle_timeout)).await;
                }
            })
            .await;
        }
    };
    accept(socket, config, stopped, move |connection| http::serve_connection(connection, routes.clone(), limits)).await;
}

impl Listener {
    /// Returns the name used in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Listener::Http => "http",
            Listener::Grpc => "grpc",
            Listener::Resp => "resp",
            Listener::Admin => "admin",
        }
    }

    /// Returns the ALPN protocols. gRPC clients close a connection that does not negotiate HTTP/2.
    const fn protocols(self) -> &'static [&'static [u8]] {
        match self {
            Listener::Http | Listener::Admin => &[HTTP_1_1],
            Listener::Grpc => &[b"h2"],
            Listener::Resp => &[],
        }
    }

    /// Returns the URL scheme without TLS, and with TLS.
    #[must_use]
    pub const fn schemes(self) -> (&'static str, &'static str) {
        match self {
            Listener::Http | Listener::Grpc | Listener::Admin => ("http", "https"),
            Listener::Resp => ("redis", "rediss"),
        }
    }
}
