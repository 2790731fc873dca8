use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_testbed::{Binary, RedisServer, RedisSetup, Reply};

use super::helpers::{LONG_TIMEOUT, call, failure, increment, options};
use crate::resp_value::Value;
use crate::transport::{Cause, Executed};
use crate::wire::client::RedisClient;
use crate::wire::protocol::script_call::Script;

async fn echo_ten_thousand_calls(server: &RedisServer, connections: usize) {
    let mut options = options(server.address());
    options.connections_per_node = connections;
    let client = Arc::new(RedisClient::start(&options).unwrap());
    client.wait_until_ready().await;
    let mut callers = JoinSet::new();
    for number in 0..10_000 {
        let client = Arc::clone(&client);
        // Of different lengths, so that bytes out of order are detected.
        let text = format!("{number}").repeat(number % 50);
        callers.spawn(async move {
            let echo = call("return {ARGV[1], KEYS[1]}", &["k"], &[&text]);
            let expected =
                Value::Array(Some(vec![Value::Bulk(Some(text.into_bytes())), Value::Bulk(Some(b"k".to_vec()))]));
            assert_eq!(client.call_within(echo, LONG_TIMEOUT).await, Ok(expected));
        });
    }
    callers.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_ten_thousand_concurrent_calls_gets_its_own_reply() {
    let server = RedisServer::start(&[]).unwrap();
    echo_ten_thousand_calls(&server, 1).await;
    echo_ten_thousand_calls(&server, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn valkey_replies_as_redis_does() {
    if Binary::Valkey.program().is_none() {
        return;
    }
    let server = RedisServer::start_with(RedisSetup { binary: Binary::Valkey, ..RedisSetup::default() }).unwrap();
    echo_ten_thousand_calls(&server, 1).await;
}

#[tokio::test]
async fn script_source_is_sent_again_after_script_flush() {
    let server = RedisServer::start(&[]).unwrap();
    let client = RedisClient::start(&options(server.address())).unwrap();
    for expected in 1..=3 {
        assert_eq!(client.call_within(increment("n"), LONG_TIMEOUT).await, Ok(Value::Integer(expected)));
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
    }
    // The source is sent once after each flush; a server that has the script gets its name.
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    let Reply::Text(statistics) = server.command(&["INFO", "commandstats"]).unwrap() else { panic!("no text") };
    assert!(statistics.contains("cmdstat_eval:calls=4"), "{statistics}");
}

#[tokio::test]
async fn script_name_is_the_sha1_that_servers_compute() {
    let server = RedisServer::start(&[]).unwrap();
    for source in ["return 1".to_owned(), "-- ".to_owned() + &"x".repeat(5000)] {
        let Reply::Text(name) = server.command(&["SCRIPT", "LOAD", &source]).unwrap() else { panic!("no text") };
        assert_eq!(name.as_bytes(), Script::new(&source).sha1());
    }
}

#[tokio::test]
async fn calls_wait_for_a_connection_being_established() {
    let server = RedisServer::start(&[]).unwrap();
    let client = RedisClient::start(&options(server.address())).unwrap();
    assert_eq!(client.call_within(increment("n"), LONG_TIMEOUT).await, Ok(Value::Integer(1)));
}

#[tokio::test]
async fn connections_set_their_name_and_database() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.database = 3;
    let client = RedisClient::start(&options).unwrap();
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    let Reply::Text(list) = server.command(&["CLIENT", "LIST"]).unwrap() else { panic!("no text") };
    assert!(list.lines().any(|line| line.contains("name=tollgate") && line.contains(" db=3 ")), "{list}");
}

#[tokio::test]
async fn dropping_the_client_closes_all_connections() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.connections_per_node = 2;
    let client = RedisClient::start(&options).unwrap();
    client.wait_until_ready().await;
    drop(client);
    let begun = Instant::now();
    loop {
        let Reply::Text(list) = server.command(&["CLIENT", "LIST"]).unwrap() else { panic!("no text") };
        if !list.contains("name=tollgate") {
            break;
        }
        assert!(begun.elapsed() < LONG_TIMEOUT);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn missing_or_wrong_password_fails_calls_with_authentication() {
    let setup = RedisSetup { password: Some("right"), ..RedisSetup::default() };
    let mut server = RedisServer::start_with(setup).unwrap();
    let mut options = options(server.address());
    let mut refused = Vec::new();
    for password in [None, Some("wrong")] {
        options.password = password.map(Into::into);
        let client = RedisClient::start(&options).unwrap();
        assert_eq!(
            client.call_within(increment("n"), LONG_TIMEOUT).await,
            failure(Cause::Authentication, Executed::No)
        );
        refused.push(client);
    }
    options.password = Some("right".into());
    let client = RedisClient::start(&options).unwrap();
    assert_eq!(client.call_within(increment("n"), LONG_TIMEOUT).await, Ok(Value::Integer(1)));

    // After the password is changed on the server, the client reconnects by itself.
    server.command(&["CONFIG", "SET", "requirepass", "wrong"]).unwrap();
    server.use_password(Some("wrong"));
    println!("after the password was changed: {:?}", refused[1].wait_until_recovered("n").await);
}

#[tokio::test]
async fn named_user_with_few_permissions_can_call_scripts() {
    let server = RedisServer::start(&[]).unwrap();
    let rights = ["on", ">secret", "~k*", "+eval", "+evalsha", "+incr"];
    server.command(&[&["ACL", "SETUSER", "gate"], &rights[..]].concat()).unwrap();
    let mut options = options(server.address());
    (options.username, options.password) = (Some("gate".to_owned()), Some("secret".into()));
    let client = RedisClient::start(&options).unwrap();
    assert_eq!(client.call_within(increment("k"), LONG_TIMEOUT).await, Ok(Value::Integer(1)));
    assert_eq!(
        client.call_within(increment("other"), LONG_TIMEOUT).await,
        failure(Cause::Authentication, Executed::No)
    );
    let in_the_middle = call("redis.call('INCR', KEYS[1]) return redis.call('DEL', KEYS[1])", &["k"], &[]);
    assert_eq!(
        client.call_within(in_the_middle, LONG_TIMEOUT).await,
        failure(Cause::Authentication, Executed::Unknown)
    );
}

#[tokio::test]
async fn server_out_of_memory_executes_no_call() {
    let server = RedisServer::start(&[]).unwrap();
    let client = RedisClient::start(&options(server.address())).unwrap();
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    assert_eq!(client.call_within(increment("n"), LONG_TIMEOUT).await, failure(Cause::OutOfMemory, Executed::No));
    assert_eq!(server.command(&["GET", "n"]).unwrap(), Reply::Text("1".to_owned()));
    // A script that has begun to write may finish, so the error never occurs in the middle of one.
    let in_the_middle = "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], string.rep('x', 100000))";
    assert_eq!(
        client.call_within(call(in_the_middle, &["n"], &[]), LONG_TIMEOUT).await,
        Ok(Value::Simple("OK".to_owned()))
    );
}

#[tokio::test]
async fn script_error_has_an_unknown_outcome() {
    let server = RedisServer::start(&[]).unwrap();
    let client = RedisClient::start(&options(server.address())).unwrap();
    let broken = call("redis.call('INCR', KEYS[1]) error('x')", &["n"], &[]);
    assert_eq!(client.call_within(broken, LONG_TIMEOUT).await, failure(Cause::Unreadable, Executed::Unknown));
}

#[tokio::test]
async fn call_to_a_read_only_server_is_retried_until_the_deadline() {
    let server = RedisServer::start(&[]).unwrap();
    let client = RedisClient::start(&options(server.address())).unwrap();
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    // A replica of an address without a server: it is read-only.
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let begun = Instant::now();
    let refused = client.call_within(increment("n"), Duration::from_millis(100)).await;
    assert_eq!(refused, failure(Cause::Unavailable, Executed::No));
    assert!(begun.elapsed() < Duration::from_millis(1000));
    let result = client.send_call(increment("n"), LONG_TIMEOUT);
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    assert_eq!(result.await, Ok(Value::Integer(2)));
}
