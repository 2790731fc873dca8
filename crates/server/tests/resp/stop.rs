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

use crate::resp_client::{Reply, RespClient, frame};
use crate::test_service::{TestService, engine};

#[test]
fn commands_sent_before_the_stop_get_replies_and_the_connection_closes() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut client, server) = duplex(1 << 16);
        let engine = Arc::new(engine(STARTER, Arc::new(ManualClock::at(1))));
        let (stopper, stopped) = watch::channel(false);
        client.write_all(b"PING\r\nECHO last\r\nECHO unfini").await.unwrap();
        // The stop precedes the first read.
        stopper.send_replace(true);
        let serving = tokio::spawn(serve_connection(server, engine, RespLimits::default(), None, stopped));
        let mut replies = String::new();
        client.read_to_string(&mut replies).await.unwrap();
        assert_eq!(replies, "+PONG\r\n$4\r\nlast\r\n");
        serving.await.unwrap().unwrap();
    });
}

#[test]
fn busy_clients_do_not_delay_shutdown() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let (mut client, server) = duplex(1 << 12);
        let engine = Arc::new(engine(STARTER, Arc::new(ManualClock::at(1))));
        let (stopper, stopped) = watch::channel(false);
        let serving = tokio::spawn(serve_connection(server, engine, RespLimits::default(), None, stopped));
        let mut reply = [0; 7];
        let mut is_closed = false;
        for at in 0..1_000_000 {
            if client.write_all(b"PING\r\nPING\r\n").await.is_err() || client.read_exact(&mut reply).await.is_err() {
                is_closed = true;
                break;
            }
            let _ = client.read_exact(&mut reply).await;
            if at == 100 {
                stopper.send_replace(true);
            }
        }
        assert!(is_closed);
        drop(client);
        let _ = serving.await.unwrap();
    });
}

/// A client with a command for every read, which stops the service during one of the reads.
struct EndlessClient {
    reads: usize,
    stopper: watch::Sender<bool>,
    replies: Arc<Mutex<Vec<u8>>>,
}

impl EndlessClient {
    const STOP_AT_READ: usize = 100;
    /// Far more reads than those of a stopping service: for its last bytes, and for those that it discards.
    const END_AT_READ: usize = 10_000;
}

impl AsyncRead for EndlessClient {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.reads += 1;
        if self.reads == Self::STOP_AT_READ {
            self.stopper.send_replace(true);
        }
        if self.reads < Self::END_AT_READ {
            into.put_slice(b"PING\r\n");
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for EndlessClient {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.replies.lock().unwrap().extend_from_slice(bytes);
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
fn commands_read_after_the_stop_get_no_reply() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (stopper, stopped) = watch::channel(false);
    let replies = Arc::default();
    let client = EndlessClient { reads: 0, stopper, replies: Arc::clone(&replies) };
    let engine = Arc::new(engine(STARTER, Arc::new(ManualClock::at(1))));
    runtime.block_on(serve_connection(client, engine, RespLimits::default(), None, stopped)).unwrap();
    assert_eq!(
        String::from_utf8(replies.lock().unwrap().clone()).unwrap(),
        "+PONG\r\n".repeat(EndlessClient::STOP_AT_READ)
    );
}

#[test]
fn idle_and_unfinished_connections_do_not_delay_shutdown() {
    let service = TestService::start();
    let mut idle = RespClient::open(service.resp);
    assert_eq!(idle.call("PING"), Reply::Simple("PONG".to_owned()));
    let mut unfinished = RespClient::open(service.resp);
    unfinished.send(b"PING\r\n*2\r\n$4\r\nEC");
    assert_eq!(unfinished.reply(), Reply::Simple("PONG".to_owned()));
    assert_eq!(service.shut_down(), Drained::Completely);
    assert_eq!((idle.read_to_end(), unfinished.read_to_end()), (String::new(), String::new()));
}

#[test]
fn shutdown_under_load_replies_to_every_decided_command() {
    const CLIENTS: usize = 8;
    const BATCH: usize = 16;
    let mut service = TestService::start();
    let (resp, replied) = (service.resp, AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| throttle_until_closed(resp, BATCH, &replied));
        }
        while replied.load(Ordering::Relaxed) < 5_000 {
            thread::yield_now();
        }
        service.stop();
    });
    let metrics = service.engine.metrics_text();
    let decided = metrics.lines().filter(|line| line.starts_with("tollgate_decisions_total{rule=\"*throttle\""));
    let decided: usize = decided.map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap()).sum();
    assert_eq!(decided, replied.load(Ordering::Relaxed));
    assert_eq!(service.shut_down(), Drained::Completely);
}

/// Keeps batches of commands in flight, and counts replies until the connection closes.
fn throttle_until_closed(server: SocketAddr, batch: usize, replied: &AtomicUsize) {
    let mut connection = TcpStream::connect(server).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let commands = frame(&["CL.THROTTLE", "k", "15", "1000000", "1"]).repeat(batch);
    let mut bytes = [0; 1 << 12];
    let mut outstanding = 0;
    loop {
        // Another batch is always in flight behind the one whose replies are read.
        while outstanding <= batch {
            let _ = connection.write_all(&commands);
            outstanding += batch;
        }
        let read = match connection.read(&mut bytes) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("{error}"),
        };
        let replies = bytes[..read].iter().filter(|byte| **byte == b'*').count();
        outstanding -= replies;
        replied.fetch_add(replies, Ordering::Relaxed);
    }
}
