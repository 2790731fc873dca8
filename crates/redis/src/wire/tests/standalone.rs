use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_testbed::{Binary, RedisServer, RedisSetup, Reply};

use super::helpers::{PLENTY, call, increment, options, trouble};
use crate::resp_value::Value;
use crate::transport::{Cause, Executed};
use crate::wire::client::Client;
use crate::wire::protocol::script_call::Script;

async fn echoes_ten_thousand(server: &RedisServer, connections: usize) {
    let mut options = options(server.address());
    options.connections_per_node = connections;
    let client = Arc::new(Client::start(&options).unwrap());
    client.ready().await;
    let mut callers = JoinSet::new();
    for number in 0..10_000 {
        let client = Arc::clone(&client);
        // Of different lengths, so that a mistake in the order of bytes does not go unseen.
        let text = format!("{number}").repeat(number % 50);
        callers.spawn(async move {
            let echo = call("return {ARGV[1], KEYS[1]}", &["k"], &[&text]);
            let expected =
                Value::Array(Some(vec![Value::Bulk(Some(text.into_bytes())), Value::Bulk(Some(b"k".to_vec()))]));
            assert_eq!(client.wait(echo, PLENTY).await, Ok(expected));
        });
    }
    callers.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_one_of_ten_thousand_callers_hears_its_own_answer() {
    let server = RedisServer::start(&[]).unwrap();
    echoes_ten_thousand(&server, 1).await;
    echoes_ten_thousand(&server, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn valkey_answers_as_redis_does() {
    if Binary::Valkey.program().is_none() {
        return;
    }
    let server = RedisServer::start_with(RedisSetup { binary: Binary::Valkey, ..RedisSetup::default() }).unwrap();
    echoes_ten_thousand(&server, 1).await;
}

#[tokio::test]
async fn a_script_that_the_server_has_forgotten_is_sent_whole() {
    let server = RedisServer::start(&[]).unwrap();
    let client = Client::start(&options(server.address())).unwrap();
    for expected in 1..=3 {
        assert_eq!(client.wait(increment("n"), PLENTY).await, Ok(Value::Integer(expected)));
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
    }
    // Once for each call, and by name where the server knows it.
    client.wait(increment("n"), PLENTY).await.unwrap();
    client.wait(increment("n"), PLENTY).await.unwrap();
    let Reply::Text(statistics) = server.command(&["INFO", "commandstats"]).unwrap() else { panic!("no text") };
    assert!(statistics.contains("cmdstat_eval:calls=4"), "{statistics}");
}

#[tokio::test]
async fn servers_know_a_script_by_our_name_for_it() {
    let server = RedisServer::start(&[]).unwrap();
    for source in ["return 1".to_owned(), "-- ".to_owned() + &"x".repeat(5000)] {
        let Reply::Text(name) = server.command(&["SCRIPT", "LOAD", &source]).unwrap() else { panic!("no text") };
        assert_eq!(name.as_bytes(), Script::new(&source).sha1());
    }
}

#[tokio::test]
async fn calls_wait_for_a_connection_that_is_just_being_made() {
    let server = RedisServer::start(&[]).unwrap();
    let client = Client::start(&options(server.address())).unwrap();
    assert_eq!(client.wait(increment("n"), PLENTY).await, Ok(Value::Integer(1)));
}

#[tokio::test]
async fn a_connection_has_a_name_and_a_database() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.database = 3;
    let client = Client::start(&options).unwrap();
    client.wait(increment("n"), PLENTY).await.unwrap();
    let Reply::Text(list) = server.command(&["CLIENT", "LIST"]).unwrap() else { panic!("no text") };
    assert!(list.lines().any(|line| line.contains("name=tollgate") && line.contains(" db=3 ")), "{list}");
}

#[tokio::test]
async fn all_connections_end_with_the_client() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.connections_per_node = 2;
    let client = Client::start(&options).unwrap();
    client.ready().await;
    drop(client);
    let begun = Instant::now();
    loop {
        let Reply::Text(list) = server.command(&["CLIENT", "LIST"]).unwrap() else { panic!("no text") };
        if !list.contains("name=tollgate") {
            break;
        }
        assert!(begun.elapsed() < PLENTY);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_password_is_given_and_a_wrong_one_is_named_as_the_cause() {
    let setup = RedisSetup { password: Some("right"), ..RedisSetup::default() };
    let mut server = RedisServer::start_with(setup).unwrap();
    let mut options = options(server.address());
    let mut refused = Vec::new();
    for password in [None, Some("wrong")] {
        options.password = password.map(Into::into);
        let client = Client::start(&options).unwrap();
        assert_eq!(client.wait(increment("n"), PLENTY).await, trouble(Cause::Authentication, Executed::No));
        refused.push(client);
    }
    options.password = Some("right".into());
    let client = Client::start(&options).unwrap();
    assert_eq!(client.wait(increment("n"), PLENTY).await, Ok(Value::Integer(1)));

    // An operator repairs it on the server: the client comes back by itself.
    server.command(&["CONFIG", "SET", "requirepass", "wrong"]).unwrap();
    server.use_password(Some("wrong"));
    println!("after the password was changed: {:?}", refused[1].recovers("n").await);
}

#[tokio::test]
async fn a_user_may_have_a_name_and_few_rights() {
    let server = RedisServer::start(&[]).unwrap();
    let rights = ["on", ">secret", "~k*", "+eval", "+evalsha", "+incr"];
    server.command(&[&["ACL", "SETUSER", "gate"], &rights[..]].concat()).unwrap();
    let mut options = options(server.address());
    (options.username, options.password) = (Some("gate".to_owned()), Some("secret".into()));
    let client = Client::start(&options).unwrap();
    assert_eq!(client.wait(increment("k"), PLENTY).await, Ok(Value::Integer(1)));
    assert_eq!(client.wait(increment("other"), PLENTY).await, trouble(Cause::Authentication, Executed::No));
    let in_the_middle = call("redis.call('INCR', KEYS[1]) return redis.call('DEL', KEYS[1])", &["k"], &[]);
    assert_eq!(client.wait(in_the_middle, PLENTY).await, trouble(Cause::Authentication, Executed::Unknown));
}

#[tokio::test]
async fn a_server_without_memory_carries_out_nothing() {
    let server = RedisServer::start(&[]).unwrap();
    let client = Client::start(&options(server.address())).unwrap();
    client.wait(increment("n"), PLENTY).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    assert_eq!(client.wait(increment("n"), PLENTY).await, trouble(Cause::OutOfMemory, Executed::No));
    assert_eq!(server.command(&["GET", "n"]).unwrap(), Reply::Text("1".to_owned()));
    // What has begun to write is let finish, so that the error never comes in the middle.
    let in_the_middle = "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], string.rep('x', 100000))";
    assert_eq!(client.wait(call(in_the_middle, &["n"], &[]), PLENTY).await, Ok(Value::Simple("OK".to_owned())));
}

#[tokio::test]
async fn an_error_in_a_script_leaves_the_outcome_open() {
    let server = RedisServer::start(&[]).unwrap();
    let client = Client::start(&options(server.address())).unwrap();
    let broken = call("redis.call('INCR', KEYS[1]) error('x')", &["n"], &[]);
    assert_eq!(client.wait(broken, PLENTY).await, trouble(Cause::Unreadable, Executed::Unknown));
}

#[tokio::test]
async fn a_server_that_cannot_serve_now_is_tried_again_until_the_deadline() {
    let server = RedisServer::start(&[]).unwrap();
    let client = Client::start(&options(server.address())).unwrap();
    client.wait(increment("n"), PLENTY).await.unwrap();
    // A replica of nobody: it must not write.
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let begun = Instant::now();
    let refused = client.wait(increment("n"), Duration::from_millis(100)).await;
    assert_eq!(refused, trouble(Cause::Unavailable, Executed::No));
    assert!(begun.elapsed() < Duration::from_millis(1000));
    let answer = client.begin(increment("n"), PLENTY);
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    assert_eq!(answer.await, Ok(Value::Integer(2)));
}
