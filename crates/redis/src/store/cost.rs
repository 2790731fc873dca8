//! The CPU cost of a decision in this process, without a server. Run it under a profiler:
//!
//!     cargo test --release -p tollgate-redis --lib --no-run
//!     TOLLGATE_DECISIONS=20000 valgrind --tool=callgrind <the test program> --ignored cost::one_rule
//!
//! The difference between two runs of different length, divided by the
//! difference in decisions, is the cost of one.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;
use tollgate_core::Quota;
use tollgate_store::{Charge, Limit, LimitOptions, Store};

use crate::call::{Call, ScriptOp};
use crate::resp_value::Value;
use crate::script::{decode, encode};
use crate::store::{RedisStore, RedisStoreSettings};
use crate::transport::{Done, ShardId, Slot, Transport};

const CALLERS: usize = 64;

/// Queues calls until all callers have sent theirs, as a connection does.
#[derive(Clone, Default)]
struct QueuedTransport(Arc<Mutex<VecDeque<(Call, Done)>>>);

impl Transport for QueuedTransport {
    fn send(&self, _: Slot, call: Call, _: Instant, done: Done) {
        black_box(encode(&call, None));
        self.0.lock().unwrap().push_back((call, done));
    }

    fn slot(&self, _: &[u8]) -> Slot {
        Slot(0)
    }

    fn is_cluster(&self) -> bool {
        false
    }

    fn shard(&self, _: Slot) -> ShardId {
        ShardId(0)
    }
}

impl QueuedTransport {
    /// Replies like a server whose buckets are all full.
    fn answer_all(&self) {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap());
        for (call, done) in waiting {
            let [ScriptOp::Decide { times, charges }] = call.ops.as_slice() else { panic!("not a decision") };
            let mut values = vec![Value::Integer(1_787_500_000_123_456), Value::Integer(i64::from(*times))];
            values.extend(charges.iter().map(|_| Value::Integer(0)));
            let reply = decode(&call, Value::Array(Some(values))).unwrap();
            done.complete(Ok(reply));
        }
    }
}

/// Returns the number of decisions from the environment.
fn decisions() -> usize {
    std::env::var("TOLLGATE_DECISIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(10_000)
}

async fn run(rules: usize, keys: usize, callers: usize, coalesces_checks: bool) {
    let transport = QueuedTransport::default();
    let settings =
        RedisStoreSettings { coalesces_checks, deadline: Duration::from_secs(600), ..RedisStoreSettings::default() };
    let store = RedisStore::for_test(transport.clone(), settings, Box::new(|_| {}), 1, None);
    let quota = Quota::token_bucket("1000000/s burst 1000000".parse().unwrap()).unwrap();
    let limit = |at: usize| store.limit(&format!("rule-{at}"), quota, LimitOptions::default()).unwrap();
    let limits: Arc<[Limit]> = (0..rules).map(limit).collect();
    let store = Arc::new(store);
    let each = decisions() / callers;
    let spawn = |caller: usize| {
        let (store, limits) = (Arc::clone(&store), Arc::clone(&limits));
        tokio::spawn(async move {
            for at in 0..each {
                let key = format!("user-{:07}", (at * callers + caller) % keys);
                let charge = |limit| Charge::new(limit, key.as_bytes(), 1);
                let charges: smallvec::SmallVec<[_; 4]> = limits.iter().map(charge).collect();
                let outcome = store.check_all(&charges).await;
                assert!(outcome.passed);
            }
        })
    };
    let callers: Vec<_> = (0..callers).map(spawn).collect();
    for _ in 0..10 * decisions() {
        if callers.iter().all(tokio::task::JoinHandle::is_finished) {
            break;
        }
        yield_now().await;
        transport.answer_all();
    }
    for caller in callers {
        caller.await.unwrap();
    }
}

#[tokio::test]
#[ignore = "for a profiler: in release"]
async fn one_rule() {
    run(1, 1_000, CALLERS, false).await;
}

#[tokio::test]
#[ignore = "for a profiler: in release"]
async fn three_rules() {
    run(3, 1_000, CALLERS, false).await;
}

#[tokio::test]
#[ignore = "for a profiler: in release"]
async fn a_hot_key() {
    run(1, 1, 512, true).await;
}
