use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::address_shares::{AddressShare, AddressShares};
use super::connection_limits::ConnectionLimits;
use super::connection_metrics::ListenerMetrics;
use super::connection_slots::{ConnectionSlot, ConnectionSlots, Descriptors, ListenerUse, SlotRefusal};
use super::stream::{ClientStream, Encryption, HandshakeError};
use crate::observe::Observer;
use crate::server::Listener;

/// The pause after an accept error that persists, such as exhausted descriptors.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(50);

/// At shutdown the backlog may have connections that were not accepted yet. They are accepted for this long; then the
/// socket closes.
const DRAIN_BACKLOG_FOR: Duration = Duration::from_millis(100);
const DRAIN_IDLE_FOR: Duration = Duration::from_millis(20);

/// The configuration of a listener.
#[derive(Debug)]
pub(crate) struct ListenerConfig {
    pub(crate) limits: ConnectionLimits,
    pub(crate) encryption: Encryption,
    pub(crate) metrics: ListenerMetrics,
    /// Logs failed handshakes.
    pub(crate) observer: Arc<Observer>,
    /// The listener.
    pub(crate) listener: Listener,
    /// Resources that the connections of an address share, over all listeners.
    pub(crate) shares: AddressShares,
    /// The descriptors of all listeners.
    pub(crate) descriptors: Descriptors,
    /// Whether the listener is for callers or for the admin API.
    pub(crate) used_for: ListenerUse,
}

/// An accepted connection, as passed to a front end.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    pub(crate) stream: ClientStream,
    pub(crate) address: SocketAddr,
    pub(crate) stopped: watch::Receiver<bool>,
    /// The resources that it shares with other connections of its address.
    pub(crate) share: Arc<AddressShare>,
}

/// Whether the service is stopping. Read for every request: reading the channel itself takes a lock.
#[derive(Clone, Debug)]
pub(crate) struct StopFlag {
    /// Whether it was stopping when this flag was created.
    has_stopped: bool,
    stopped: watch::Receiver<bool>,
}

impl StopFlag {
    /// Creates a flag from a channel that changes to `true` once.
    pub(crate) fn new(mut stopped: watch::Receiver<bool>) -> StopFlag {
        let has_stopped = *stopped.borrow_and_update();
        StopFlag { has_stopped, stopped }
    }

    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        // Without a sender the service has ended.
        self.has_stopped || self.stopped.has_changed().unwrap_or(true)
    }
}

/// Accepts connections until the service stops, and returns when every connection has ended. `front_end` serves one
/// connection. Dropping the future ends all of them.
pub(crate) async fn accept<F, Served>(
    socket: TcpListener,
    config: ListenerConfig,
    stopped: watch::Receiver<bool>,
    front_end: F,
) where
    F: Fn(AcceptedConnection) -> Served + Send + Sync + 'static,
    Served: Future<Output = ()> + Send + 'static,
{
    let slots = ConnectionSlots::new(config.limits.connections, config.limits.connections_per_address);
    let context = Arc::new(ListenerContext { config, slots, front_end });
    let mut accept_loop = AcceptLoop { context, connections: JoinSet::new(), stopped };
    accept_loop.accept_until_stopped(&socket).await;
    accept_loop.drain_backlog(&socket).await;
    drop(socket);
    while accept_loop.connections.join_next().await.is_some() {}
}

/// The state shared by all connections of a listener.
struct ListenerContext<F> {
    config: ListenerConfig,
    slots: ConnectionSlots,
    front_end: F,
}

/// The slots that a connection holds.
type Slots = [ConnectionSlot; 2];

impl ListenerConfig {
    fn admit(&self, slots: &ConnectionSlots, from: IpAddr) -> Result<Slots, SlotRefusal> {
        let slot = slots.take(from)?;
        let descriptor = self.descriptors.take(self.used_for, from).ok_or(SlotRefusal::ForDescriptor)?;
        Ok([slot, descriptor])
    }
}

/// Accepts the connections of a listener and waits for their end.
struct AcceptLoop<F> {
    context: Arc<ListenerContext<F>>,
    connections: JoinSet<()>,
    stopped: watch::Receiver<bool>,
}

impl<F, Served> AcceptLoop<F>
where
    F: Fn(AcceptedConnection) -> Served + Send + Sync + 'static,
    Served: Future<Output = ()> + Send + 'static,
{
    async fn accept_until_stopped(&mut self, socket: &TcpListener) {
        loop {
            tokio::select! {
                biased;
                () = until_stopped(&mut self.stopped) => return,
                Some(_) = self.connections.join_next() => {}
                accepted = socket.accept() => match accepted {
                    Ok((connection, address)) => self.admit_connection(connection, address),
                    Err(error) => {
                        self.context.config.metrics.accept_errors.inc();
                        if !concerns_one_connection(&error) {
                            tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                        }
                    }
                },
            }
        }
    }

    /// Accepts the connections that were in the backlog when the service stopped.
    async fn drain_backlog(&mut self, socket: &TcpListener) {
        let begun = tokio::time::Instant::now();
        while begun.elapsed() < DRAIN_BACKLOG_FOR {
            match tokio::time::timeout(DRAIN_IDLE_FOR, socket.accept()).await {
                Ok(Ok((connection, address))) => self.admit_connection(connection, address),
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    fn admit_connection(&mut self, connection: TcpStream, address: SocketAddr) {
        let ListenerContext { config, slots, .. } = &*self.context;
        let admitted = match config.admit(slots, address.ip()) {
            Ok(admitted) => admitted,
            Err(why) => return config.metrics.count_refused(why),
        };
        // Responses are small and latency matters: disables Nagle's algorithm. If that fails, responses are still
        // sent.
        let _ = connection.set_nodelay(true);
        let (context, stopped) = (Arc::clone(&self.context), self.stopped.clone());
        self.connections.spawn(async move { context.serve(connection, address, stopped, admitted).await });
    }
}

impl<F, Served> ListenerContext<F>
where
    F: Fn(AcceptedConnection) -> Served,
    Served: Future<Output = ()>,
{
    async fn serve(
        &self,
        connection: TcpStream,
        address: SocketAddr,
        mut stopped: watch::Receiver<bool>,
        _slots: Slots,
    ) {
        let &ListenerConfig { ref limits, ref encryption, ref metrics, ref observer, listener, ref shares, .. } =
            &self.config;
        metrics.accepted.inc();
        let _open = OpenConnection::new(metrics);
        let share = shares.of(address.ip());
        let stream = tokio::select! {
            begun = tokio::time::timeout(limits.header_timeout, encryption.establish(connection)) => begun,
            // A connection that has not completed its handshake has not sent a request.
            () = until_stopped(&mut stopped), if encryption.has_handshake() => return,
        };
        match stream {
            Ok(Ok(stream)) => (self.front_end)(AcceptedConnection { stream, address, stopped, share }).await,
            Ok(Err(error)) => {
                metrics.count_failed_handshake(Some(&error));
                match error {
                    HandshakeError::Plaintext => observer.note_plaintext(listener, address.ip()),
                    HandshakeError::Failed(error) => {
                        observer.note_failed_handshake(listener.name(), address.ip(), &error);
                    }
                }
            }
            // The handshake took too long: there is no error to log.
            Err(_) => metrics.count_failed_handshake(None),
        }
    }
}

/// Counts a connection as open until dropped, even if its task is aborted.
struct OpenConnection<'a>(&'a ListenerMetrics);

impl<'a> OpenConnection<'a> {
    fn new(metrics: &'a ListenerMetrics) -> OpenConnection<'a> {
        metrics.open.inc();
        OpenConnection(metrics)
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.open.dec();
    }
}

/// Waits until the service stops or has ended.
pub(crate) async fn until_stopped(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Returns whether an accept error concerns only the connection being accepted.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_flag_is_set_once_the_service_stops() {
        let (stop, stopped) = watch::channel(false);
        let early = StopFlag::new(stopped.clone());
        assert!(!early.is_set() && !early.is_set());
        stop.send_replace(true);
        assert!(early.is_set() && early.is_set(), "reading the flag does not clear it");
        assert!(StopFlag::new(stopped).is_set(), "a flag created later is set too");
    }

    #[test]
    fn stop_flag_is_set_once_the_service_has_ended() {
        let (stop, stopped) = watch::channel(false);
        let flag = StopFlag::new(stopped);
        drop(stop);
        assert!(flag.is_set());
    }
}
