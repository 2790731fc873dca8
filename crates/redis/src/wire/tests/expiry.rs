use std::time::Duration;

use tokio::time::Instant;
use tollgate_testbed::{RedisServer, Reply};

use super::helpers::{LONG_TIMEOUT, call, options};
use crate::resp_value::Value;
use crate::transport::Slot;
use crate::wire::client::RedisClient;
use crate::wire::cluster::node_clock::Reading;
use crate::wire::protocol::script_call::{ScriptCall, Timing};

const SOURCE: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    if now > tonumber(ARGV[1]) then return now end
    return { now, redis.call('INCR', KEYS[1]) }";

/// Increments a key, unless the call has expired.
fn increment_before_expiry(key: &str) -> ScriptCall {
    let stamp = |argument: &mut [u8], expiry: u64| argument.copy_from_slice(format!("{expiry:016}").as_bytes());
    ScriptCall { timing: Timing::Expires { stamp }, ..call(SOURCE, &[key], &["9999999999999999"]) }
}

fn is_count(reply: &Value, expected: i64) -> bool {
    matches!(reply, Value::Array(Some(values)) if values[1..] == [Value::Integer(expected)])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_sent_to_a_stalled_server_are_not_executed_after_their_deadline() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.silence = Duration::from_millis(200);
    let client = RedisClient::start(&options).unwrap();
    client.wait_until_ready().await;
    server.pause().unwrap();
    let calls: Vec<_> =
        (0..10).map(|_| client.send_call(increment_before_expiry("n"), Duration::from_millis(20))).collect();
    for call in calls {
        assert!(call.await.is_err());
    }
    server.resume().unwrap();
    client.wait_until_recovered("other").await;
    assert_eq!(server.command(&["GET", "n"]).unwrap(), Reply::Nil);
    assert!(is_count(&client.call_within(increment_before_expiry("n"), LONG_TIMEOUT).await.unwrap(), 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_that_expires_because_the_clock_was_set_is_resent_and_executed_once() {
    let server = RedisServer::start(&[]).unwrap();
    let client = RedisClient::start(&options(server.address())).unwrap();
    client.wait_until_ready().await;
    let now = Instant::now();
    // Simulates that the server's clock was at 1970 and has been set to the present since.
    let at_1970 = Reading { server_us: 1, sent_at: now, received_at: now };
    client.shared.directory.owner(Slot(0)).unwrap().clock.observe(at_1970);
    for expected in 1..=3 {
        assert!(is_count(&client.call_within(increment_before_expiry("n"), LONG_TIMEOUT).await.unwrap(), expected));
    }
    // The source of the script was sent, the call expired, and the source was sent once more.
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let stats = stats.text().unwrap();
    assert!(stats.contains("cmdstat_incr:calls=3,"), "{stats}");
    assert!(stats.contains("cmdstat_eval:calls=2,"), "{stats}");
}
