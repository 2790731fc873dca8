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

/// What goes wrong between a client and a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    Pass,
    /// Everything arrives later by this much, in both directions.
    Delay(Duration),
    /// Requests arrive. At the first answer, which is swallowed, the connection closes.
    DropAfterSend,
    /// The client hears the end of the answers, while its requests still arrive.
    HalfClose,
    /// Connections are reset, those that are open and those that come.
    Reset,
    /// Connections are accepted, and everything is swallowed. What was open stays so for good.
    BlackHole,
    /// New connections are refused. Those that are open go on.
    Refuse,
}

/// Stands between a client and a server, and can go wrong in several ways, at any time.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    fault: watch::Sender<Fault>,
    thread: Option<JoinHandle<()>>,
    // Ends the thread when dropped.
    end: Option<mpsc::Sender<()>>,
    _port: ReservedPort,
}

impl FaultProxy {
    /// Begins to pass connections on to `target`.
    pub fn start(target: SocketAddr) -> io::Result<FaultProxy> {
        let port = ReservedPort::new()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        let (fault, faults) = watch::channel(Fault::Pass);
        let (end, mut ended) = mpsc::channel::<()>(1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Bound before this returns, but not with the runtime: the caller may be in one of its own.
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What goes wrong from now on.
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
            // Without a listener the system refuses by itself.
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
    let answers = pump(server_read, client_write, Direction::Answers, faults.clone());
    // Either end of a connection ends the whole.
    tokio::select! {
        () = requests => {}
        () = answers => {}
    }
    if *faults.borrow() == Fault::Reset {
        reset(&client);
        reset(&server);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    Answers,
}

/// Passes on what comes, until one side ends or the fault ends it.
async fn pump(mut from: ReadHalf<'_>, to: WriteHalf<'_>, direction: Direction, mut faults: watch::Receiver<Fault>) {
    let to = Mutex::new(to);
    let (late, mut due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
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
                (Fault::HalfClose, Direction::Answers) => {
                    let _ = to.lock().await.shutdown().await;
                    return swallow_for_good(&mut from, &mut buffer).await;
                }
                (Fault::BlackHole, _) => return swallow_for_good(&mut from, &mut buffer).await,
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
                (Fault::DropAfterSend, Direction::Answers) => return,
                (Fault::Delay(delay), _) => delay,
                _ => Duration::ZERO,
            };
            if late.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = reader => {}
        () = writer => {}
    }
}

/// Bytes are missing from now on, so that nothing that comes later would make sense.
async fn swallow_for_good(from: &mut ReadHalf<'_>, buffer: &mut [u8]) {
    while let Ok(1..) = from.read(buffer).await {}
}

/// With no time to linger, closing sends a reset.
fn reset(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
