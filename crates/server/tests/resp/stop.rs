use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, duplex};
use tokio::sync::watch;
use tollgate::ManualClock;
use tollgate::policy::STARTER;
use tollgate_server::Drained;
use tollgate_server::resp::{RespLimits, serve_connection};

use crate::resp_client::{Answer, RespClient, frame};
use crate::running::{Running, engine};

#[test]
fn what_was_read_is_answered_and_the_connection_closed() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut client, server) = duplex(1 << 16);
        let engine = Arc::new(engine(STARTER, Arc::new(ManualClock::at(1))));
        let (stopper, stopped) = watch::channel(false);
        client.write_all(b"PING\r\nECHO last\r\nECHO unfini").await.unwrap();
        // Told to stop before it has begun to read.
        stopper.send_replace(true);
        let serving = tokio::spawn(serve_connection(server, engine, RespLimits::default(), None, stopped));
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "+PONG\r\n$4\r\nlast\r\n");
        serving.await.unwrap().unwrap();
    });
}

#[test]
fn a_client_that_always_has_more_does_not_hold_it_up() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let (mut client, server) = duplex(1 << 12);
        let engine = Arc::new(engine(STARTER, Arc::new(ManualClock::at(1))));
        let (stopper, stopped) = watch::channel(false);
        let serving = tokio::spawn(serve_connection(server, engine, RespLimits::default(), None, stopped));
        let mut answer = [0; 7];
        let mut is_closed = false;
        for at in 0..1_000_000 {
            if client.write_all(b"PING\r\nPING\r\n").await.is_err() || client.read_exact(&mut answer).await.is_err() {
                is_closed = true;
                break;
            }
            let _ = client.read_exact(&mut answer).await;
            if at == 100 {
                stopper.send_replace(true);
            }
        }
        assert!(is_closed);
        drop(client);
        let _ = serving.await.unwrap();
    });
}

/// A client that has another command whenever it is read from, and stops the service while it is.
struct Talkative {
    reads: usize,
    stopper: watch::Sender<bool>,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Talkative {
    const STOPS_AT: usize = 100;
    /// Far more than a service that stops reads: its last bytes, and those that it throws away.
    const GIVES_UP_AT: usize = 10_000;
}

impl AsyncRead for Talkative {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.reads += 1;
        if self.reads == Self::STOPS_AT {
            self.stopper.send_replace(true);
        }
        if self.reads < Self::GIVES_UP_AT {
            into.put_slice(b"PING\r\n");
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Talkative {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.heard.lock().unwrap().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn what_was_read_when_it_stopped_is_the_last_that_is_answered() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (stopper, stopped) = watch::channel(false);
    let heard = Arc::default();
    let client = Talkative { reads: 0, stopper, heard: Arc::clone(&heard) };
    let engine = Arc::new(engine(STARTER, Arc::new(ManualClock::at(1))));
    runtime.block_on(serve_connection(client, engine, RespLimits::default(), None, stopped)).unwrap();
    assert_eq!(String::from_utf8(heard.lock().unwrap().clone()).unwrap(), "+PONG\r\n".repeat(Talkative::STOPS_AT));
}

#[test]
fn idle_and_unfinished_connections_do_not_hold_the_service_up() {
    let service = Running::start();
    let mut idle = RespClient::open(service.resp);
    assert_eq!(idle.call("PING"), Answer::Simple("PONG".to_owned()));
    let mut unfinished = RespClient::open(service.resp);
    unfinished.send(b"PING\r\n*2\r\n$4\r\nEC");
    assert_eq!(unfinished.answer(), Answer::Simple("PONG".to_owned()));
    assert_eq!(service.drained(), Drained::Completely);
    assert_eq!((idle.rest(), unfinished.rest()), (String::new(), String::new()));
}

#[test]
fn stopping_under_load_answers_all_that_was_decided() {
    const CLIENTS: usize = 8;
    const AT_A_TIME: usize = 16;
    let mut service = Running::start();
    let (resp, answered) = (service.resp, AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| throttle_until_closed(resp, AT_A_TIME, &answered));
        }
        while answered.load(Ordering::Relaxed) < 5_000 {
            thread::yield_now();
        }
        service.stop();
    });
    let metrics = service.engine.metrics_text();
    let decided = metrics.lines().filter(|line| line.starts_with("tollgate_decisions_total{rule=\"*throttle\""));
    let decided: usize = decided.map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap()).sum();
    assert_eq!(decided, answered.load(Ordering::Relaxed));
    assert_eq!(service.drained(), Drained::Completely);
}

/// Always has a batch of commands under way, and counts answers until there are no more.
fn throttle_until_closed(server: SocketAddr, at_a_time: usize, answered: &AtomicUsize) {
    let mut connection = TcpStream::connect(server).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let commands = frame(&["CL.THROTTLE", "k", "15", "1000000", "1"]).repeat(at_a_time);
    let mut bytes = [0; 1 << 12];
    let mut missing = 0;
    loop {
        // One batch is always behind the one that is read.
        while missing <= at_a_time {
            let _ = connection.write_all(&commands);
            missing += at_a_time;
        }
        let read = match connection.read(&mut bytes) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("{error}"),
        };
        let answers = bytes[..read].iter().filter(|byte| **byte == b'*').count();
        missing -= answers;
        answered.fetch_add(answers, Ordering::Relaxed);
    }
}
