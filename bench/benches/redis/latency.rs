//! The latency of checks at a steady rate, with a working server and with one that does not reply.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tollgate_redis::{BreakerSettings, RedisStore, RedisStoreSettings};
use tollgate_store::{LimitOptions, Quota, Source, Store};
use tollgate_testbed::{Fault, FaultProxy};

use crate::callers::{charge, connect, key};
use crate::effort::Effort;
use crate::goals::Goals;
use crate::pinned::start_server;

/// One check at each tick.
const TICK: Duration = Duration::from_millis(1);
/// How much later than its deadline a check may return.
const GRACE: Duration = Duration::from_millis(5);

pub(crate) async fn measure(effort: Effort, goals: &mut Goals) {
    let server = start_server();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let never_opens =
        BreakerSettings { failures_in_a_row: u32::MAX, calls_at_least: u32::MAX, ..BreakerSettings::default() };
    // Without a breaker every check waits for its deadline: the worst case.
    let waiting = RedisStoreSettings { breaker: never_opens, ..RedisStoreSettings::default() };
    let direct = server.address().to_string();
    let behind_proxy = proxy.address().to_string();
    println!("\n| latency of a check, 1,000 a second, us | p50 | p99 | p99.9 | max | by fallback |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");

    let store = Arc::new(connect(&direct, RedisStoreSettings::default()).await);
    steady(&store, Duration::from_millis(100)).await;
    steady(&store, effort.steady()).await.print("all is well");

    let allowed = RedisStoreSettings::default().deadline + GRACE;
    let mut hold = |name: &str, latency: &Latency| {
        latency.print(name);
        let p99 = Duration::from_micros(latency.micros.value_at_quantile(0.99));
        let measured = format!("{:.1} ms", p99.as_secs_f64() * 1e3);
        let goal = format!("at most {} ms: its deadline and {} ms", allowed.as_millis(), GRACE.as_millis());
        goals.add(&format!("p99 of a check, {name}"), &goal, &measured, p99 <= allowed);
    };
    for (settings, breaker) in [(RedisStoreSettings::default(), ""), (waiting, ", no breaker")] {
        let store = Arc::new(connect(&direct, settings.clone()).await);
        steady(&store, Duration::from_millis(100)).await;
        server.pause().unwrap();
        let latency = steady(&store, effort.steady() / 2).await;
        server.resume().unwrap();
        hold(&format!("server stopped{breaker}"), &latency);

        let store = Arc::new(connect(&behind_proxy, settings).await);
        steady(&store, Duration::from_millis(100)).await;
        proxy.set(Fault::BlackHole);
        let latency = steady(&store, effort.steady() / 2).await;
        proxy.set(Fault::Pass);
        hold(&format!("everything dropped{breaker}"), &latency);
    }
}

struct Latency {
    micros: Histogram<u64>,
    by_fallback: u64,
}

impl Latency {
    fn print(&self, name: &str) {
        let at = |quantile: f64| self.micros.value_at_quantile(quantile);
        println!(
            "| {name} | {} | {} | {} | {} | {} of {} |",
            at(0.5),
            at(0.99),
            at(0.999),
            self.micros.max(),
            self.by_fallback,
            self.micros.len()
        );
    }
}

/// Sends checks at a steady rate, whether or not earlier ones have ended.
async fn steady(store: &Arc<RedisStore>, span: Duration) -> Latency {
    let quota = Quota::token_bucket("1000/s burst 1000".parse().unwrap()).unwrap();
    let limit = store.limit("steady", quota, LimitOptions::default()).unwrap();
    let ticks = (span.as_nanos() / TICK.as_nanos()) as usize;
    let mut ticking = tokio::time::interval(TICK);
    let mut checks = Vec::with_capacity(ticks);
    for number in 0..ticks {
        ticking.tick().await;
        let (store, limit) = (Arc::clone(store), limit.clone());
        checks.push(tokio::spawn(async move {
            let (begun, key) = (Instant::now(), key(number % 1_000));
            let outcome = store.check_all(&[charge(&limit, &key)]).await;
            (begun.elapsed(), outcome.source)
        }));
    }
    let mut latency = Latency { micros: Histogram::new(3).unwrap(), by_fallback: 0 };
    for check in checks {
        let (took, source) = check.await.unwrap();
        latency.micros.record(took.as_micros() as u64).unwrap();
        latency.by_fallback += u64::from(source == Source::Fallback);
    }
    latency
}
