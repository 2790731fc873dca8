//! The front end, and the least that a server of its kind can do.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tollgate::{PolicyBuilder, RealClock, rule};
use tollgate_server::Engine;
use tollgate_server::resp::{Found, Parser, RespLimits, serve_connection};

use crate::load::pin_to_core;

/// A server that runs.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    /// Where the system says how long its thread has been on a core.
    pub(crate) schedstat: String,
}

impl Running {
    /// The nanoseconds its thread has spent on a core.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let text = std::fs::read_to_string(&self.schedstat).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    }
}

/// The core for servers.
pub(crate) fn last_core() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get) - 1
}

/// What every answer of the floor is: that of a first command under this limit.
const ONE_ANSWER: &[u8] = b"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:1\r\n";

/// Parses every command with our parser, reads and writes as we do, and decides nothing.
pub(crate) fn floor() -> Running {
    run(|| {
        |mut stream: TcpStream| async move {
            let mut parser = Parser::new(RespLimits::default());
            let (mut input, mut output) = (Vec::with_capacity(4096), Vec::new());
            loop {
                input.reserve(4096);
                if stream.read_buf(&mut input).await.unwrap() == 0 {
                    return;
                }
                let mut answered = 0;
                loop {
                    match parser.parse(&input[answered..]).unwrap() {
                        Found::Part => break,
                        Found::Nothing(length) => answered += length,
                        Found::Command(length) => {
                            output.extend_from_slice(ONE_ANSWER);
                            answered += length;
                        }
                    }
                }
                input.drain(..answered);
                stream.write_all(&output).await.unwrap();
                output.clear();
            }
        }
    })
}

pub(crate) fn tollgate() -> Running {
    run(|| {
        let policy = PolicyBuilder::default().rule(rule("per-ip").per("client_ip").limit("60/min"));
        let engine = Arc::new(Engine::new(&policy.build().unwrap(), Arc::new(RealClock::new())).unwrap());
        let (stopper, stopped) = watch::channel(false);
        // It is never stopped.
        std::mem::forget(stopper);
        move |stream| {
            let serving = serve_connection(stream, Arc::clone(&engine), RespLimits::default(), stopped.clone());
            async move { serving.await.unwrap() }
        }
    })
}

/// Runs a server on a thread of its own on the last core.
fn run<S, F>(start: impl FnOnce() -> S + Send + 'static) -> Running
where
    S: FnMut(TcpStream) -> F,
    F: Future<Output = ()> + 'static,
{
    let (sender, receiver) = mpsc::channel();
    let core = last_core();
    thread::spawn(move || {
        pin_to_core(core);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let tasks = tokio::task::LocalSet::new();
        tasks.block_on(&runtime, async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let thread = std::fs::read_link("/proc/thread-self").unwrap();
            let schedstat = format!("/proc/{}/schedstat", thread.display());
            sender.send(Running { address: listener.local_addr().unwrap(), schedstat }).unwrap();
            let mut serve = start();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                tokio::task::spawn_local(serve(stream));
            }
        });
    });
    receiver.recv().unwrap()
}
