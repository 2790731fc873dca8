use std::io;
use std::net::{self, Ipv4Addr, SocketAddr};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::port::ReservedPort;

/// A network fault between a client and a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    #[default]
    Pass,
    /// Delays all bytes by this much, in both directions.
    Delay(Duration),
    /// Forwards requests. Discards the first reply and closes the connection.
    DropAfterSend,
    /// Closes the direction to the client, while requests are still forwarded.
    HalfClose,
    /// Resets open and new connections.
    Reset,
    /// Accepts connections, and discards all bytes. The connections that were open remain black holes after the fault
    /// ends.
    BlackHole,
    /// Refuses new connections. Open connections work.
    Refuse,
}

/// A TCP proxy between a client and a server that can inject faults at any time.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    fault: watch::Sender<Fault>,
    thread: Option<JoinHandle<()>>,
    // Stops the thread when dropped.
    end: Option<mpsc::Sender<()>>,
    _port: ReservedPort,
}

impl FaultProxy {
    /// Starts forwarding connections to `target`.
    pub fn start(target: SocketAddr) -> io::Result<FaultProxy> {
        let port = ReservedPort::new()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        let (fault, faults) = watch::channel(Fault::Pass);
        let (end, mut ended) = mpsc::channel::<()>(1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Bound before this returns, but without the runtime, because the caller may be within another one.
        let listener = net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                tokio::select! {
                    () = accept_all(listener, address, target, faults) => {}
                    _ = ended.recv() => {}
                }
            });
        });
        Ok(FaultProxy { address, fault, thread: Some(thread), end: Some(end), _port: port })
    }

    /// Returns the address of the proxy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the fault from now on.
    pub fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept_all(
    listener: TcpListener,
    address: SocketAddr,
    target: SocketAddr,
    mut faults: watch::Receiver<Fault>,
) {
    let mut listener = Some(listener);
    loop {
        if *faults.borrow_and_update() == Fault::Refuse {
            // Without a listener the operating system refuses connections.
            listener = None;
            if faults.changed().await.is_err() {
                return;
            }
            continue;
        }
        let open = match listener.take() {
            Some(open) => open,
            None => match TcpListener::bind(address).await {
                Ok(open) => open,
                Err(_) => return,
            },
        };
        tokio::select! {
            accepted = open.accept() => {
                if let Ok((client, _)) = accepted {
                    tokio::spawn(serve(client, target, faults.clone()));
                }
            }
            changed = faults.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
        listener = Some(open);
    }
}

async fn serve(mut client: TcpStream, target: SocketAddr, faults: watch::Receiver<Fault>) {
    let _ = client.set_nodelay(true);
    if *faults.borrow() == Fault::Reset {
        return reset(&client);
    }
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    let _ = server.set_nodelay(true);
    let (client_read, client_write) = client.split();
    let (server_read, server_write) = server.split();
    let requests = pump(client_read, server_write, Direction::Requests, faults.clone());
    let replies = pump(server_read, client_write, Direction::Replies, faults.clone());
    // The end of either direction ends the connection.
    tokio::select! {
        () = requests => {}
        () = replies => {}
    }
    if *faults.borrow() == Fault::Reset {
        reset(&client);
        reset(&server);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    Replies,
}

/// Forwards bytes in one direction, until either side closes it or the fault ends it.
async fn pump(mut from: ReadHalf<'_>, to: WriteHalf<'_>, direction: Direction, mut faults: watch::Receiver<Fault>) {
    let to = Mutex::new(to);
    let (delayed, mut due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let writer = async {
        while let Some((at, bytes)) = due.recv().await {
            sleep_until(at).await;
            if to.lock().await.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    let reader = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let fault = *faults.borrow_and_update();
            match (fault, direction) {
                (Fault::Reset, _) => return,
                (Fault::HalfClose, Direction::Replies) => {
                    let _ = to.lock().await.shutdown().await;
                    return discard_all(&mut from, &mut buffer).await;
                }
                (Fault::BlackHole, _) => return discard_all(&mut from, &mut buffer).await,
                _ => {}
            }
            let read = tokio::select! {
                read = from.read(&mut buffer) => read,
                changed = faults.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            };
            let Ok(count @ 1..) = read else { return };
            let delay = match (*faults.borrow(), direction) {
                (Fault::DropAfterSend, Direction::Replies) => return,
                (Fault::Delay(delay), _) => delay,
                _ => Duration::ZERO,
            };
            if delayed.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = reader => {}
        () = writer => {}
    }
}

/// Discards all bytes until the connection ends. It cannot be used again, because later bytes would be out of context.
async fn discard_all(from: &mut ReadHalf<'_>, buffer: &mut [u8]) {
    while let Ok(1..) = from.read(buffer).await {}
}

/// Makes closing the connection send a reset, by a linger time of zero.
fn reset(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
