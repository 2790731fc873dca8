use std::time::Duration;

use tokio::time::Instant;
use tollgate_testbed::{Fault, FaultProxy, RedisServer, Reply};

use super::helpers::{PLENTY, call, increment, options, trouble};
use crate::resp_value::Value;
use crate::transport::{Cause, Executed};
use crate::wire::client::Client;

/// So long that only something else than the deadline can end a call.
const LONG: Duration = Duration::from_secs(20);

fn count(server: &RedisServer, key: &str) -> i64 {
    match server.command(&["GET", key]).unwrap() {
        Reply::Text(count) => count.parse().unwrap(),
        _ => 0,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_flight_at_a_killed_server_are_unknown_and_later_ones_are_not_sent() {
    let mut server = RedisServer::start(&[]).unwrap();
    let client = Client::start(&options(server.address())).unwrap();
    client.wait(increment("n"), PLENTY).await.unwrap();
    // A paused server takes bytes and answers nothing, so that these are surely in flight.
    server.pause().unwrap();
    let in_flight: Vec<_> = (0..100).map(|_| client.begin(increment("n"), LONG)).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.kill().unwrap();
    for answer in in_flight {
        assert_eq!(answer.await, trouble(Cause::Connection, Executed::Unknown));
    }
    let begun = Instant::now();
    let mut not_sent = 0;
    while begun.elapsed() < Duration::from_millis(300) {
        let answer = client.begin(increment("n"), LONG).await;
        assert_eq!(answer, trouble(Cause::Connection, Executed::No));
        not_sent += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.restart().unwrap();
    println!("{not_sent} calls heard at once that they were not sent");
    println!("after a killed server is back: {:?}", client.recovers("n").await);
    assert_eq!(client.wait(increment("n"), PLENTY).await, Ok(Value::Integer(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_given_up_and_its_calls_are_unknown() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.silence = Duration::from_millis(200);
    options.connect_timeout = Duration::from_millis(200);
    let client = Client::start(&options).unwrap();
    client.wait(increment("n"), PLENTY).await.unwrap();
    server.pause().unwrap();
    let begun = Instant::now();
    let answer = client.begin(increment("n"), LONG).await;
    assert_eq!(answer, trouble(Cause::Timeout, Executed::Unknown));
    assert!(begun.elapsed() >= Duration::from_millis(200));
    println!("a silent server is given up after {:?}", begun.elapsed());
    // Its system still accepts connections. Nobody may be kept waiting by that.
    let begun = Instant::now();
    let answer = client.begin(increment("n"), LONG).await;
    assert!(matches!(answer, Err(trouble) if trouble.executed == Executed::No), "{answer:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    server.resume().unwrap();
    println!("after a paused server goes on: {:?}", client.recovers("n").await);
    // What it had received before it was carried out, once, and nobody sent it again.
    assert_eq!(count(&server, "n"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_keeps_nobody_beyond_the_deadline_and_is_replaced() {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let mut options = options(proxy.address());
    options.silence = Duration::from_millis(300);
    options.connect_timeout = Duration::from_millis(300);
    let client = Client::start(&options).unwrap();
    client.wait(increment("n"), PLENTY).await.unwrap();
    proxy.set(Fault::BlackHole);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(600) {
        let called = Instant::now();
        assert!(client.wait(increment("n"), Duration::from_millis(20)).await.is_err());
        assert!(called.elapsed() < Duration::from_millis(500), "{:?}", called.elapsed());
    }
    proxy.set(Fault::Pass);
    println!("after a black hole: {:?}", client.recovers("n").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_reached_the_server_is_unknown_and_never_sent_again() {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = Client::start(&options(proxy.address())).unwrap();
    // From now on the server knows the script: what reaches it is carried out.
    client.wait(increment("n"), PLENTY).await.unwrap();
    for (round, fault) in [Fault::DropAfterSend, Fault::HalfClose, Fault::Reset].into_iter().enumerate() {
        proxy.set(Fault::Pass);
        client.recovers("n").await;
        let before = count(&server, "n");
        proxy.set(fault);
        let mut unknown = 0;
        for _ in 0..20 {
            match client.begin(increment("n"), LONG).await {
                Ok(value) => panic!("{fault:?}: {value:?}"),
                Err(trouble) if trouble.executed == Executed::Unknown => unknown += 1,
                Err(_) => {}
            }
        }
        proxy.set(Fault::Pass);
        client.recovers("n").await;
        let carried_out = count(&server, "n") - before;
        println!("{fault:?}: {unknown} of 20 unknown, {carried_out} of them carried out");
        assert!(carried_out <= unknown, "what was said not to be carried out was");
        assert!(round > 0 || carried_out > 0, "the fault did not show");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_late_is_not_sent() {
    let server = RedisServer::start(&[]).unwrap();
    let client = Client::start(&options(server.address())).unwrap();
    client.ready().await;
    let answer = client.begin(increment("n"), Duration::ZERO).await;
    assert_eq!(answer, trouble(Cause::Timeout, Executed::No));
    assert_eq!(count(&server, "n"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_a_blocked_connection_does_not_take_are_not_sent_late() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.silence = LONG;
    let client = Client::start(&options).unwrap();
    client.wait(increment("n"), PLENTY).await.unwrap();
    server.pause().unwrap();
    // More than the buffers of both systems hold.
    let filling = "x".repeat(1_000_000);
    let source = "return redis.call('INCR', KEYS[1])";
    let large: Vec<_> = (0..40).map(|_| client.begin(call(source, &["n"], &[&filling]), LONG)).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    let answer = client.begin(increment("n"), Duration::from_millis(50)).await;
    assert_eq!(answer, trouble(Cause::Timeout, Executed::No));
    assert!(begun.elapsed() < Duration::from_millis(1000), "{:?}", begun.elapsed());
    server.resume().unwrap();
    for answer in large {
        answer.await.unwrap();
    }
    assert_eq!(count(&server, "n"), 41);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_blocked_connection_that_is_lost_only_what_was_written_is_unknown() {
    let mut server = RedisServer::start(&[]).unwrap();
    let client = Client::start(&options(server.address())).unwrap();
    client.wait(increment("n"), PLENTY).await.unwrap();
    server.pause().unwrap();
    let filling = "x".repeat(1_000_000);
    let source = "return redis.call('INCR', KEYS[1])";
    let large: Vec<_> = (0..40).map(|_| client.begin(call(source, &["n"], &[&filling]), LONG)).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.kill().unwrap();
    let mut executed = Vec::new();
    for answer in large {
        executed.push(answer.await.unwrap_err().executed);
    }
    let unknown = executed.iter().take_while(|&&executed| executed == Executed::Unknown).count();
    println!("{unknown} of 40 calls of 1 MB were written");
    assert!((1..40).contains(&unknown), "{unknown}");
    assert!(executed[unknown..].iter().all(|&executed| executed == Executed::No));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_calls_than_may_wait_are_refused() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.calls_per_connection = 10;
    options.silence = LONG;
    let client = Client::start(&options).unwrap();
    client.wait(increment("n"), PLENTY).await.unwrap();
    // A call counts until the connection looks for more, which is a moment after it was answered.
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.pause().unwrap();
    let taken: Vec<_> = (0..10).map(|_| client.begin(increment("n"), LONG)).collect();
    // Those that are on their way count too.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let answer = client.begin(increment("n"), LONG).await;
    assert_eq!(answer, trouble(Cause::Overloaded, Executed::No));
    server.resume().unwrap();
    for answer in taken {
        answer.await.unwrap();
    }
    assert_eq!(count(&server, "n"), 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_connections_that_is_lost_leaves_the_other() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.connections_per_node = 2;
    let client = Client::start(&options).unwrap();
    client.ready().await;
    let Reply::Text(list) = server.command(&["CLIENT", "LIST"]).unwrap() else { panic!("no text") };
    let own = list.lines().find(|line| line.contains("name=tollgate")).unwrap();
    let id = own.split(' ').next().and_then(|field| field.strip_prefix("id=")).unwrap();
    server.command(&["CLIENT", "KILL", "ID", id]).unwrap();
    for _ in 0..100 {
        let answer = client.wait(increment("n"), PLENTY).await;
        // Whoever is the first to use the lost one may find out; nobody waits.
        assert!(!matches!(answer, Err(trouble) if trouble.cause == Cause::Timeout));
    }
    assert!(count(&server, "n") >= 98);
}
