use std::time::Duration;

use tokio::time::Instant;
use tollgate_testbed::{Fault, FaultProxy, RedisServer, Reply};

use super::helpers::{LONG_TIMEOUT, call, failure, increment, options};
use crate::resp_value::Value;
use crate::transport::{Cause, Executed};
use crate::wire::client::RedisClient;

/// A deadline so late that a call ends for another reason.
const LATE_DEADLINE: Duration = Duration::from_secs(20);

fn count(server: &RedisServer, key: &str) -> i64 {
    match server.command(&["GET", key]).unwrap() {
        Reply::Text(count) => count.parse().unwrap(),
        _ => 0,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_flight_to_a_killed_server_are_unknown_and_later_ones_are_not_sent() {
    let mut server = RedisServer::start(&[]).unwrap();
    let client = RedisClient::start(&options(server.address())).unwrap();
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    // A paused server accepts bytes and sends no reply, so these calls are certainly in flight.
    server.pause().unwrap();
    let in_flight: Vec<_> = (0..100).map(|_| client.send_call(increment("n"), LATE_DEADLINE)).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.kill().unwrap();
    for result in in_flight {
        assert_eq!(result.await, failure(Cause::Connection, Executed::Unknown));
    }
    let begun = Instant::now();
    let mut not_sent = 0;
    while begun.elapsed() < Duration::from_millis(300) {
        let result = client.send_call(increment("n"), LATE_DEADLINE).await;
        assert_eq!(result, failure(Cause::Connection, Executed::No));
        not_sent += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.restart().unwrap();
    println!("{not_sent} calls failed immediately, not sent");
    println!("recovered after the restart of a killed server: {:?}", client.wait_until_recovered("n").await);
    assert_eq!(client.call_within(increment("n"), LONG_TIMEOUT).await, Ok(Value::Integer(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_to_an_unresponsive_server_are_unknown_after_the_reply_timeout() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.silence = Duration::from_millis(200);
    options.connect_timeout = Duration::from_millis(200);
    let client = RedisClient::start(&options).unwrap();
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    server.pause().unwrap();
    let begun = Instant::now();
    let result = client.send_call(increment("n"), LATE_DEADLINE).await;
    assert_eq!(result, failure(Cause::Timeout, Executed::Unknown));
    assert!(begun.elapsed() >= Duration::from_millis(200));
    println!("the reply timeout of an unresponsive server takes effect after {:?}", begun.elapsed());
    // Its operating system still accepts connections. Calls must not wait for these.
    let begun = Instant::now();
    let result = client.send_call(increment("n"), LATE_DEADLINE).await;
    assert!(matches!(result, Err(error) if error.executed == Executed::No), "{result:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    server.resume().unwrap();
    println!("recovered after a paused server continues: {:?}", client.wait_until_recovered("n").await);
    // The call that it had received was executed once, and not sent again.
    assert_eq!(count(&server, "n"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_into_a_black_hole_end_at_their_deadline_and_the_connection_is_replaced() {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let mut options = options(proxy.address());
    options.silence = Duration::from_millis(300);
    options.connect_timeout = Duration::from_millis(300);
    let client = RedisClient::start(&options).unwrap();
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    proxy.set(Fault::BlackHole);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(600) {
        let called = Instant::now();
        assert!(client.call_within(increment("n"), Duration::from_millis(20)).await.is_err());
        assert!(called.elapsed() < Duration::from_millis(500), "{:?}", called.elapsed());
    }
    proxy.set(Fault::Pass);
    println!("recovered after a black hole: {:?}", client.wait_until_recovered("n").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_may_have_reached_the_server_are_never_sent_again() {
    let server = RedisServer::start(&[]).unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = RedisClient::start(&options(proxy.address())).unwrap();
    // From now on the server has the script, and executes every call that reaches it.
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    for (round, fault) in [Fault::DropAfterSend, Fault::HalfClose, Fault::Reset].into_iter().enumerate() {
        proxy.set(Fault::Pass);
        client.wait_until_recovered("n").await;
        let before = count(&server, "n");
        proxy.set(fault);
        let mut unknown = 0;
        for _ in 0..20 {
            match client.send_call(increment("n"), LATE_DEADLINE).await {
                Ok(value) => panic!("{fault:?}: {value:?}"),
                Err(error) if error.executed == Executed::Unknown => unknown += 1,
                Err(_) => {}
            }
        }
        proxy.set(Fault::Pass);
        client.wait_until_recovered("n").await;
        let executed = count(&server, "n") - before;
        println!("{fault:?}: {unknown} of 20 unknown, {executed} of them executed");
        assert!(executed <= unknown, "a call reported as not executed was executed");
        assert!(round > 0 || executed > 0, "the fault had no effect");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_past_their_deadline_are_not_sent() {
    let server = RedisServer::start(&[]).unwrap();
    let client = RedisClient::start(&options(server.address())).unwrap();
    client.wait_until_ready().await;
    let result = client.send_call(increment("n"), Duration::ZERO).await;
    assert_eq!(result, failure(Cause::Timeout, Executed::No));
    assert_eq!(count(&server, "n"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_behind_a_blocked_connection_are_not_sent_after_their_deadline() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.silence = LATE_DEADLINE;
    let client = RedisClient::start(&options).unwrap();
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    server.pause().unwrap();
    // More than the socket buffers of both sides hold.
    let filling = "x".repeat(1_000_000);
    let source = "return redis.call('INCR', KEYS[1])";
    let large: Vec<_> = (0..40).map(|_| client.send_call(call(source, &["n"], &[&filling]), LATE_DEADLINE)).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    let result = client.send_call(increment("n"), Duration::from_millis(50)).await;
    assert_eq!(result, failure(Cause::Timeout, Executed::No));
    assert!(begun.elapsed() < Duration::from_millis(1000), "{:?}", begun.elapsed());
    server.resume().unwrap();
    for result in large {
        result.await.unwrap();
    }
    assert_eq!(count(&server, "n"), 41);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_written_calls_are_unknown_when_a_blocked_connection_is_lost() {
    let mut server = RedisServer::start(&[]).unwrap();
    let client = RedisClient::start(&options(server.address())).unwrap();
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    server.pause().unwrap();
    let filling = "x".repeat(1_000_000);
    let source = "return redis.call('INCR', KEYS[1])";
    let large: Vec<_> = (0..40).map(|_| client.send_call(call(source, &["n"], &[&filling]), LATE_DEADLINE)).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.kill().unwrap();
    let mut executed = Vec::new();
    for result in large {
        executed.push(result.await.unwrap_err().executed);
    }
    let unknown = executed.iter().take_while(|&&executed| executed == Executed::Unknown).count();
    println!("{unknown} of 40 calls of 1 MB were written");
    assert!((1..40).contains(&unknown), "{unknown}");
    assert!(executed[unknown..].iter().all(|&executed| executed == Executed::No));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_over_the_limit_of_a_connection_fail_as_overloaded() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.calls_per_connection = 10;
    options.silence = LATE_DEADLINE;
    let client = RedisClient::start(&options).unwrap();
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    // A call counts until the connection takes the next ones, shortly after its reply.
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.pause().unwrap();
    let taken: Vec<_> = (0..10).map(|_| client.send_call(increment("n"), LATE_DEADLINE)).collect();
    // Calls in flight count too.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let result = client.send_call(increment("n"), LATE_DEADLINE).await;
    assert_eq!(result, failure(Cause::Overloaded, Executed::No));
    server.resume().unwrap();
    for result in taken {
        result.await.unwrap();
    }
    assert_eq!(count(&server, "n"), 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_continue_over_the_other_connection_when_one_of_two_is_lost() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.connections_per_node = 2;
    let client = RedisClient::start(&options).unwrap();
    client.wait_until_ready().await;
    let Reply::Text(list) = server.command(&["CLIENT", "LIST"]).unwrap() else { panic!("no text") };
    let client_line = list.lines().find(|line| line.contains("name=tollgate")).unwrap();
    let id = client_line.split(' ').next().and_then(|field| field.strip_prefix("id=")).unwrap();
    server.command(&["CLIENT", "KILL", "ID", id]).unwrap();
    for _ in 0..100 {
        let result = client.call_within(increment("n"), LONG_TIMEOUT).await;
        // The first call over the lost connection may fail; none waits.
        assert!(!matches!(result, Err(error) if error.cause == Cause::Timeout));
    }
    assert!(count(&server, "n") >= 98);
}
