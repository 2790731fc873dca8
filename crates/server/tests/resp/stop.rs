use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::sync::watch;
use tollgate::ManualClock;
use tollgate::policy::STARTER;
use tollgate_server::Drained;
use tollgate_server::resp::{RespLimits, serve_connection};

use crate::resp_client::{Answer, RespClient};
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
        let serving = tokio::spawn(serve_connection(server, engine, RespLimits::default(), stopped));
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
        let serving = tokio::spawn(serve_connection(server, engine, RespLimits::default(), stopped));
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
