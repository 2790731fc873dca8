//! Leased decisions of a hot key: one caller that awaits each decision, with leases, with a call for each decision, and
//! exactly with all that joins calls; through the store and through the limiter.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tollgate::{AsyncLimiter, Request};
use tollgate_redis::{RedisStore, RedisStoreSettings};
use tollgate_store::{Limit, LimitOptions, Quota, Source, Store};
use tollgate_testbed::RedisServer;

use crate::callers::{Callers, charge, connect};
use crate::effort::Effort;
use crate::goals::{Goals, median};
use crate::pinned::start_server;

/// More than one caller can ask for.
const RATE: &str = "10000000/s burst 10000000";
const HOT_CALLERS: usize = 512;
/// The decisions between two readings of the clock, where only throughput is measured.
const AT_A_TIME: u64 = 64;
/// The time until a key is leased, and its leases have reached their size.
const WARM_UP: Duration = Duration::from_millis(500);

const TIMES_ONE_CALL: f64 = 100.0;
const P99: Duration = Duration::from_micros(50);

const NAMES: [&str; 5] = [
    "leased, one caller",
    "leased, one caller, `AsyncLimiter::check`",
    "a call each, one caller",
    "exact, one caller, `AsyncLimiter::check`",
    "exact, 512 callers, joined",
];

pub(crate) async fn measure(effort: Effort, goals: &mut Goals) {
    let server = start_server();
    let long = RedisStoreSettings { deadline: Duration::from_secs(5), ..RedisStoreSettings::default() };
    let alone = RedisStoreSettings { coalesces_checks: false, caches_refusals: false, ..long.clone() };
    let quota = Quota::token_bucket(RATE.parse().unwrap()).unwrap();
    let leased = Caller::connect(&server, RedisStoreSettings::default(), quota, true).await;
    let exact = Caller::connect(&server, alone, quota, false).await;
    let joined = Callers::connect(&server, long, &["joined"], quota, 1, HOT_CALLERS).await;
    let limiter_leased = limiter(&server, "leased").await;
    let limiter_exact = limiter(&server, "exact").await;
    leased.per_second(WARM_UP).await;
    limited_per_second(&limiter_leased, WARM_UP).await;

    let mut rounds: Vec<[f64; NAMES.len()]> = Vec::new();
    let mut latencies: Vec<Histogram<u64>> = (0..4).map(|_| Histogram::new(3).unwrap()).collect();
    // The first round is a warm-up.
    for round in 0..=effort.rounds() {
        eprintln!("leases: round {round} of {}", effort.rounds());
        let turn = effort.turn();
        let mut figures = [f64::NAN; NAMES.len()];
        for at in 0..NAMES.len() {
            let at = (at + round) % NAMES.len();
            figures[at] = match at {
                0 => leased.per_second(turn).await,
                1 => limited_per_second(&limiter_leased, turn).await,
                2 => exact.per_second(turn).await,
                3 => limited_per_second(&limiter_exact, turn).await,
                _ => joined.per_second(turn).await,
            };
        }
        rounds.push(figures);
        if round > 0 {
            leased.time(turn / 2, &mut latencies[0]).await;
            limited_time(&limiter_leased, turn / 2, &mut latencies[1]).await;
            exact.time(turn / 2, &mut latencies[2]).await;
            limited_time(&limiter_exact, turn / 2, &mut latencies[3]).await;
        }
    }
    rounds.remove(0);
    report(&rounds, &latencies, &leased, goals);
}

/// One caller of one key.
struct Caller {
    store: Arc<RedisStore>,
    limit: Limit,
    is_leased: bool,
}

impl Caller {
    async fn connect(server: &RedisServer, settings: RedisStoreSettings, quota: Quota, is_leased: bool) -> Caller {
        let store = Arc::new(connect(&server.address().to_string(), settings).await);
        let lease = is_leased.then_some(Duration::from_secs(1));
        let options = LimitOptions { lease, ..LimitOptions::default() };
        let limit = store.limit(if is_leased { "leased" } else { "alone" }, quota, options).unwrap();
        Caller { store, limit, is_leased }
    }

    async fn decide(&self) -> Source {
        let outcome = self.store.check_all(&[charge(&self.limit, "hot")]).await;
        assert!(outcome.passed, "{outcome:?}");
        outcome.source
    }

    /// Returns the decisions per second, each awaited before the next. Leased, nearly all of them must be.
    async fn per_second(&self, span: Duration) -> f64 {
        let (begun, mut decisions) = (Instant::now(), 0);
        let before = self.store.stats().leased_decisions;
        while begun.elapsed() < span {
            for _ in 0..if self.is_leased { AT_A_TIME } else { 1 } {
                self.decide().await;
                decisions += 1;
            }
            if self.is_leased {
                // Lets the connection of this thread work, as the awaits of a real caller do.
                tokio::task::yield_now().await;
            }
        }
        let took = begun.elapsed().as_secs_f64();
        let leased = self.store.stats().leased_decisions - before;
        assert!(!self.is_leased || span <= WARM_UP || leased * 100 >= decisions * 99, "{leased} of {decisions}");
        decisions as f64 / took
    }

    /// Times single decisions.
    async fn time(&self, span: Duration, nanos: &mut Histogram<u64>) {
        let begun = Instant::now();
        while begun.elapsed() < span {
            let asked = Instant::now();
            self.decide().await;
            nanos.record(asked.elapsed().as_nanos() as u64).unwrap();
            if self.is_leased {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Returns a limiter with a policy of one rule.
async fn limiter(server: &RedisServer, consistency: &str) -> AsyncLimiter {
    let policy = format!(
        "version: 1
store: {{ redis: {{ nodes: [\"{}\"], consistency: {consistency} }} }}
identity: {{ user: {{ header: X-User, trusted: true }} }}
rules:
  - {{ name: {consistency}-per-user, key: user, limit: {RATE} }}
",
        server.address()
    );
    let loaded = tollgate::policy::parse(&policy, "policy", None).unwrap();
    let limiter = AsyncLimiter::connect(&loaded.policy, |_| {}).unwrap();
    for _ in 0..1_000 {
        if limiter.store_as::<RedisStore>().unwrap().is_ready() {
            return limiter;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no connection to the server");
}

fn request() -> Request<'static> {
    Request { headers: &[("x-user", "hot")], ..Request::from_peer(None) }
}

async fn limited_per_second(limiter: &AsyncLimiter, span: Duration) -> f64 {
    let (begun, mut decisions) = (Instant::now(), 0_u32);
    while begun.elapsed() < span {
        for _ in 0..AT_A_TIME {
            assert!(limiter.check(&request()).await.is_allowed());
            decisions += 1;
        }
        tokio::task::yield_now().await;
    }
    f64::from(decisions) / begun.elapsed().as_secs_f64()
}

async fn limited_time(limiter: &AsyncLimiter, span: Duration, nanos: &mut Histogram<u64>) {
    let begun = Instant::now();
    while begun.elapsed() < span {
        let asked = Instant::now();
        assert!(limiter.check(&request()).await.is_allowed());
        nanos.record(asked.elapsed().as_nanos() as u64).unwrap();
        tokio::task::yield_now().await;
    }
}

fn report(rounds: &[[f64; NAMES.len()]], latencies: &[Histogram<u64>], leased: &Caller, goals: &mut Goals) {
    let ratio = |one: usize, other: usize| median(rounds.iter().map(|round| round[one] / round[other]).collect());
    println!("\n| decisions of a hot key | a second | of a call each | p50, us | p99, us | p99.9, us |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for (at, name) in NAMES.iter().enumerate() {
        let figure = median(rounds.iter().map(|round| round[at]).collect());
        let times = latencies.get(at).map_or("| | |".to_owned(), |nanos| {
            let at = |quantile: f64| nanos.value_at_quantile(quantile) as f64 / 1e3;
            format!("| {:.1} | {:.1} | {:.1} |", at(0.5), at(0.99), at(0.999))
        });
        println!("| {name} | {figure:.0} | {:.1} {times}", ratio(at, 2));
    }
    let stats = leased.store.stats();
    println!(
        "\nOf the first line, {} decisions were leased, with {} calls that lease or return tokens and {} others.",
        stats.leased_decisions, stats.lease_calls, stats.calls
    );
    for (at, through) in [(0, ""), (1, ", through `AsyncLimiter::check`")] {
        goals.add(
            &format!("a hot key, leased, one caller, against one call each{through}"),
            &format!("at least {TIMES_ONE_CALL}x the decisions a second"),
            &format!("{:.0}x", ratio(at, at + 2)),
            ratio(at, at + 2) >= TIMES_ONE_CALL,
        );
        let p99 = Duration::from_nanos(latencies[at].value_at_quantile(0.99));
        goals.add(
            &format!("p99 of a leased decision{through}"),
            &format!("under {} us", P99.as_micros()),
            &format!("{:.1} us", p99.as_nanos() as f64 / 1e3),
            p99 < P99,
        );
    }
}
