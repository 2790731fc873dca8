use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection_limits::ConnectionLimits;
use super::connection_metrics::ListenerMetrics;
use super::connection_slots::{ConnectionSlot, ConnectionSlots, Descriptors, For, SlotRefusal};
use super::shares::{Share, Shares};
use super::stream::{Encryption, Stream};
use crate::observe::Observer;

/// How long nothing is accepted after an error that will not go away by itself,
/// such as that descriptors have run out.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(50);

/// When the service stops, the system may already have connections for it that
/// it has not seen. They are taken for so long; then the socket closes.
const DRAIN_BACKLOG_FOR: Duration = Duration::from_millis(100);
const DRAIN_IDLE_FOR: Duration = Duration::from_millis(20);

/// What a listener grants to those who come.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) limits: ConnectionLimits,
    pub(crate) encryption: Encryption,
    pub(crate) metrics: ListenerMetrics,
    /// Who is told whom TLS did not let in, and why.
    pub(crate) observer: Arc<Observer>,
    /// What the listener is called.
    pub(crate) listener: &'static str,
    /// What the connections of an address hold together, over all listeners.
    pub(crate) shares: Shares,
    /// The descriptors of all listeners.
    pub(crate) descriptors: Descriptors,
    /// Whose connections come here.
    pub(crate) used_for: For,
}

/// An accepted connection, as a front end gets it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) address: SocketAddr,
    pub(crate) stopped: watch::Receiver<bool>,
    /// What it may hold, together with the other connections of its address.
    pub(crate) share: Arc<Share>,
}

/// Whether the service is about to end, for who asks with every request:
/// reading the channel itself takes a lock.
#[derive(Clone, Debug)]
pub(crate) struct StopFlag {
    /// It was so at the first look.
    has_stopped: bool,
    stopped: watch::Receiver<bool>,
}

impl StopFlag {
    /// Of a channel that says `true` once, and nothing after that.
    pub(crate) fn new(mut stopped: watch::Receiver<bool>) -> StopFlag {
        let has_stopped = *stopped.borrow_and_update();
        StopFlag { has_stopped, stopped }
    }

    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        // Without a sender the service is gone.
        self.has_stopped || self.stopped.has_changed().unwrap_or(true)
    }
}

/// Accepts until the service stops, and returns when every connection has
/// ended. `front_end` serves one of them. Dropping the future ends them all.
pub(crate) async fn accept<F, Served>(
    socket: TcpListener,
    granted: Granted,
    stopped: watch::Receiver<bool>,
    front_end: F,
) where
    F: Fn(Connection) -> Served + Send + Sync + 'static,
    Served: Future<Output = ()> + Send + 'static,
{
    let slots = ConnectionSlots::new(granted.limits.connections, granted.limits.connections_per_address);
    let context = Arc::new(ListenerContext { granted, slots, front_end });
    let mut accept_loop = AcceptLoop { context, connections: JoinSet::new(), stopped };
    accept_loop.accept_until_stopped(&socket).await;
    accept_loop.drain_backlog(&socket).await;
    drop(socket);
    while accept_loop.connections.join_next().await.is_some() {}
}

/// What is the same for all connections of a listener.
struct ListenerContext<F> {
    granted: Granted,
    slots: ConnectionSlots,
    front_end: F,
}

/// What a connection counts in, from its beginning to its end.
type Slots = [ConnectionSlot; 2];

impl Granted {
    fn admit(&self, slots: &ConnectionSlots, from: IpAddr) -> Result<Slots, SlotRefusal> {
        let slot = slots.take(from)?;
        let descriptor = self.descriptors.take(self.used_for, from).ok_or(SlotRefusal::ForDescriptor)?;
        Ok([slot, descriptor])
    }
}

/// Accepts the connections of a listener, and waits for them to end.
struct AcceptLoop<F> {
    context: Arc<ListenerContext<F>>,
    connections: JoinSet<()>,
    stopped: watch::Receiver<bool>,
}

impl<F, Served> AcceptLoop<F>
where
    F: Fn(Connection) -> Served + Send + Sync + 'static,
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
                        self.context.granted.metrics.accept_errors.inc();
                        if !is_of_one_connection(&error) {
                            tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                        }
                    }
                },
            }
        }
    }

    /// Admits the connections that the system had queued before the service stopped.
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
        let ListenerContext { granted, slots, .. } = &*self.context;
        let admitted = match granted.admit(slots, address.ip()) {
            Ok(admitted) => admitted,
            Err(why) => return granted.metrics.count_refused(why),
        };
        // Answers are small and somebody waits for each: never hold one back to fill a packet.
        // Where that cannot be said, answers come all the same.
        let _ = connection.set_nodelay(true);
        let (context, stopped) = (Arc::clone(&self.context), self.stopped.clone());
        self.connections.spawn(async move { context.serve(connection, address, stopped, admitted).await });
    }
}

impl<F, Served> ListenerContext<F>
where
    F: Fn(Connection) -> Served,
    Served: Future<Output = ()>,
{
    async fn serve(
        &self,
        connection: TcpStream,
        address: SocketAddr,
        mut stopped: watch::Receiver<bool>,
        _slots: Slots,
    ) {
        let Granted { limits, encryption, metrics, observer, listener, shares, .. } = &self.granted;
        metrics.accepted.inc();
        let _open = Open::new(metrics);
        let share = shares.of(address.ip());
        let stream = tokio::select! {
            begun = tokio::time::timeout(limits.header_timeout, encryption.begin(connection)) => begun,
            // A connection without a handshake has not sent a request.
            () = until_stopped(&mut stopped), if encryption.takes_time() => return,
        };
        match stream {
            Ok(Ok(stream)) => (self.front_end)(Connection { stream, address, stopped, share }).await,
            Ok(Err(error)) => {
                metrics.handshake_errors.inc();
                observer.note_failed_handshake(listener, address.ip(), &error);
            }
            // The handshake took too long: there is no error to log.
            Err(_) => metrics.handshake_errors.inc(),
        }
    }
}

/// Counts a connection as open until it is dropped, also where its task is ended from outside.
struct Open<'a>(&'a ListenerMetrics);

impl<'a> Open<'a> {
    fn new(metrics: &'a ListenerMetrics) -> Open<'a> {
        metrics.open.inc();
        Open(metrics)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.dec();
    }
}

/// Waits until the service stops. If it is gone altogether, that is as good a reason.
pub(crate) async fn until_stopped(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Whether an error is about the connection that was to be accepted, and not about us.
fn is_of_one_connection(error: &io::Error) -> bool {
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
    fn it_is_up_from_when_the_service_stops() {
        let (stop, stopped) = watch::channel(false);
        let early = StopFlag::new(stopped.clone());
        assert!(!early.is_up() && !early.is_up());
        stop.send_replace(true);
        assert!(early.is_up() && early.is_up(), "looking does not take it down");
        assert!(StopFlag::new(stopped).is_up(), "who comes later sees it too");
    }

    #[test]
    fn it_is_up_when_the_service_is_gone() {
        let (stop, stopped) = watch::channel(false);
        let flag = StopFlag::new(stopped);
        drop(stop);
        assert!(flag.is_up());
    }
}
