use std::time::Duration;

use tokio::time::Instant;
use tollgate_testbed::{RedisServer, Reply};

use super::helpers::{PLENTY, call, options};
use crate::resp_value::Value;
use crate::transport::Slot;
use crate::wire::client::Client;
use crate::wire::cluster::node_clock::Reading;
use crate::wire::protocol::script_call::{ScriptCall, Timing};

const SOURCE: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    if now > tonumber(ARGV[1]) then return now end
    return { now, redis.call('INCR', KEYS[1]) }";

/// Adds one to a key, unless it comes too late.
fn increment_in_time(key: &str) -> ScriptCall {
    let stamp = |argument: &mut [u8], expiry: u64| argument.copy_from_slice(format!("{expiry:016}").as_bytes());
    ScriptCall { timing: Timing::Expires { stamp }, ..call(SOURCE, &[key], &["9999999999999999"]) }
}

fn is_count(answer: &Value, expected: i64) -> bool {
    matches!(answer, Value::Array(Some(values)) if values[1..] == [Value::Integer(expected)])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stalled_server_was_sent_is_not_carried_out_after_its_deadline() {
    let server = RedisServer::start(&[]).unwrap();
    let mut options = options(server.address());
    options.silence = Duration::from_millis(200);
    let client = Client::start(&options).unwrap();
    client.ready().await;
    server.pause().unwrap();
    let calls: Vec<_> = (0..10).map(|_| client.begin(increment_in_time("n"), Duration::from_millis(20))).collect();
    for call in calls {
        assert!(call.await.is_err());
    }
    server.resume().unwrap();
    client.recovers("other").await;
    assert_eq!(server.command(&["GET", "n"]).unwrap(), Reply::Nil);
    assert!(is_count(&client.wait(increment_in_time("n"), PLENTY).await.unwrap(), 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_expires_because_the_clock_was_set_is_sent_again_and_carried_out_once() {
    let server = RedisServer::start(&[]).unwrap();
    let client = Client::start(&options(server.address())).unwrap();
    client.ready().await;
    let now = Instant::now();
    // As if the server's clock had been set to the present since.
    let at_1970 = Reading { server_us: 1, asked_at: now, heard_at: now };
    client.shared.directory.owner(Slot(0)).unwrap().clock.observe(at_1970);
    for expected in 1..=3 {
        assert!(is_count(&client.wait(increment_in_time("n"), PLENTY).await.unwrap(), expected));
    }
    // The script was sent whole, expired, and was sent once more.
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let stats = stats.text().unwrap();
    assert!(stats.contains("cmdstat_incr:calls=3,"), "{stats}");
    assert!(stats.contains("cmdstat_eval:calls=2,"), "{stats}");
}
