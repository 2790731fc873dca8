use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep};
use tollgate_redis::{RedisOptions, RedisStore, RedisStoreSettings};
use tollgate_store::{Charge, Limit, Source, Store};

use crate::admissions::{Admission, Admissions, now_us};
use crate::support::{ChildProcess, connect, default_settings, long_deadline};
use crate::{options, quota};

/// Requests are made at each of these ticks, whether or not earlier ones have their decisions.
const TICK: Duration = Duration::from_millis(1);
const TICKS_PER_SECOND: u64 = 1_000;

/// Long enough that a busy machine does not refuse requests by itself. In exact mode requests of one key wait at most a
/// twentieth of it for the call of others.
const DEADLINE: Duration = Duration::from_millis(200);

/// The maximum duration of a load.
const MAX_DURATION: Duration = Duration::from_secs(60);

/// The key of all tests.
pub(crate) const KEY: &str = "alice";

/// The requests that a child offers, and to which servers.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    /// `cluster`, or the address of a standalone server.
    pub(crate) nodes: String,
    pub(crate) is_cluster: bool,
    pub(crate) scope: String,
    pub(crate) is_leased: bool,
    /// Requests a second for the hot key.
    pub(crate) per_second: u64,
    pub(crate) span: Duration,
    /// The number of keys with five requests a second each, decided exactly.
    pub(crate) slow_keys: u64,
    /// Whether each admission is sent at once.
    pub(crate) sends_at_once: bool,
}

/// What a child has done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) log: Admissions,
    /// The number of requests for the hot key.
    pub(crate) offered: u64,
    /// How many of them were refused because no server answered in time.
    pub(crate) failed: u64,
    /// The number of calls for the hot key.
    pub(crate) calls: u64,
    pub(crate) lease_calls: u64,
    /// The number of requests for the slow keys, and how many were not decided by the servers.
    pub(crate) slow: u64,
    pub(crate) slow_failed: u64,
}

impl Offered {
    pub(crate) fn task(&self) -> String {
        let Offered { nodes, is_cluster, scope, is_leased, per_second, span, slow_keys, sends_at_once } = self;
        let span_ms = span.as_millis();
        format!("{nodes} {is_cluster} {scope} {is_leased} {per_second} {span_ms} {slow_keys} {sends_at_once}")
    }

    pub(crate) fn parse(task: &str) -> Offered {
        let parts: Vec<&str> = task.split(' ').collect();
        let [nodes, is_cluster, scope, is_leased, per_second, span_ms, slow_keys, sends_at_once] = parts[..] else {
            panic!("{task}")
        };
        let (is, number) = (|text: &str| text == "true", |text: &str| text.parse::<u64>().unwrap());
        Offered {
            nodes: nodes.to_owned(),
            is_cluster: is(is_cluster),
            scope: scope.to_owned(),
            is_leased: is(is_leased),
            per_second: number(per_second),
            span: Duration::from_millis(number(span_ms)),
            slow_keys: number(slow_keys),
            sends_at_once: is(sends_at_once),
        }
    }

    pub(crate) fn redis(&self) -> RedisOptions {
        match self.is_cluster {
            true => RedisOptions::cluster(self.nodes.split(',').map(str::to_owned).collect()),
            false => RedisOptions::standalone(self.nodes.clone()),
        }
    }

    /// Starts a child that offers these requests.
    pub(crate) fn start(&self) -> ChildProcess {
        let mut child = ChildProcess::start(&self.task());
        child.wait_until_ready();
        child
    }

    /// Offers the requests, and sends a report to the parent.
    pub(crate) async fn run_as_child(self) {
        // The hot key has a store of its own, so that its calls are counted apart.
        let store = connect(&self.redis(), RedisStoreSettings { deadline: DEADLINE, ..default_settings() }).await;
        let slow_store = connect(&self.redis(), long_deadline()).await;
        let limit = store.limit(&self.scope, quota(), options(self.is_leased)).unwrap();
        ChildProcess::wait_for_start();
        let hot = Load::start(&store, &limit, self.per_second, self.sends_at_once);
        let slow = tokio::spawn(slow_load(slow_store, self.clone()));
        sleep(self.span).await;
        let (offered, log) = hot.end().await;

        let (slow, slow_failed) = slow.await.unwrap();
        let stats = store.stats();
        let failed = stats.fallbacks_closed;
        if !self.sends_at_once {
            log.0.iter().for_each(|admission| ChildProcess::send(&admission.message()));
        }
        ChildProcess::send(&format!(
            "calls {offered} {failed} {} {} {slow} {slow_failed}",
            stats.calls, stats.lease_calls
        ));
    }
}

impl Report {
    /// Reads the messages of children.
    pub(crate) fn of(messages: &[String]) -> Report {
        let mut report = Report::default();
        for message in messages {
            if let Some(admission) = Admission::parse(message) {
                report.log.0.push(admission);
            } else if let Some(numbers) = message.strip_prefix("calls ") {
                let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
                let [offered, failed, calls, lease_calls, slow, slow_failed] = numbers[..] else { panic!("{message}") };
                report.offered += offered;
                report.failed += failed;
                report.calls += calls;
                report.lease_calls += lease_calls;
                report.slow += slow;
                report.slow_failed += slow_failed;
            }
        }
        report
    }
}

/// Requests for the hot key at a steady rate, of one instance.
pub(crate) struct Load {
    is_stopped: Arc<AtomicBool>,
    task: JoinHandle<(u64, Admissions)>,
}

impl Load {
    pub(crate) fn start(store: &Arc<RedisStore>, limit: &Limit, per_second: u64, sends_at_once: bool) -> Load {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (store, limit, stopped) = (Arc::clone(store), limit.clone(), Arc::clone(&is_stopped));
        let task = tokio::spawn(async move {
            let begun = Instant::now();
            let (mut offered, mut log) = (0, Admissions::default());
            let (sender, mut late) = unbounded_channel();
            let mut ticking = interval(TICK);
            for tick in 1.. {
                ticking.tick().await;
                if stopped.load(Ordering::Relaxed) || begun.elapsed() > MAX_DURATION {
                    break;
                }
                let count = per_second * tick / TICKS_PER_SECOND - offered;
                offered += count;
                tokio::spawn(requests(Arc::clone(&store), limit.clone(), count, sends_at_once, sender.clone()));
                while let Ok(admissions) = late.try_recv() {
                    log.merge(admissions);
                }
            }
            drop(sender);
            while let Some(admissions) = late.recv().await {
                log.merge(admissions);
            }
            (offered, log)
        });
        Load { is_stopped, task }
    }

    /// Ends the load. Returns how many requests were made, and what was admitted.
    pub(crate) async fn end(self) -> (u64, Admissions) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

/// Makes requests at once.
async fn requests(
    store: Arc<RedisStore>,
    limit: Limit,
    count: u64,
    sends_at_once: bool,
    done: UnboundedSender<Admissions>,
) {
    let charges = [Charge::new(&limit, KEY.as_bytes(), 1)];
    let mut checks: Vec<_> = (0..count).map(|_| (None, store.check_all(&charges))).collect();
    let mut log = Admissions::default();
    poll_fn(|cx| {
        checks.retain_mut(|(begun_us, check)| {
            let from_us = *begun_us.get_or_insert_with(now_us);
            let Poll::Ready(outcome) = check.as_mut().poll(cx) else { return true };
            if outcome.passed {
                log.add(from_us, now_us(), outcome.source == Source::Leased);
            }
            false
        });
        if checks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    if sends_at_once {
        log.0.iter().for_each(|admission| ChildProcess::send(&admission.message()));
    }
    let _ = done.send(log);
}

/// Checks each slow key five times a second. Returns the number of checks, and of those not decided by the servers.
async fn slow_load(store: Arc<RedisStore>, offered: Offered) -> (u64, u64) {
    let limit = store.limit("slow", quota(), options(offered.is_leased)).unwrap();
    let begun = Instant::now();
    let mut ticking = interval(TICK);
    let (mut checks, mut tasks) = (0, tokio::task::JoinSet::new());
    let mut failed = 0;
    while offered.slow_keys > 0 && begun.elapsed() < offered.span {
        ticking.tick().await;
        let due = 5 * offered.slow_keys * begun.elapsed().as_millis() as u64 / 1_000;
        for number in checks..due {
            let (store, limit) = (Arc::clone(&store), limit.clone());
            let key = format!("slow-{}", number % offered.slow_keys);
            tasks.spawn(async move {
                store.check_all(&[Charge::new(&limit, key.as_bytes(), 1)]).await.source != Source::Exact
            });
        }
        checks = due.max(checks);
        while let Some(ended) = tasks.try_join_next() {
            failed += u64::from(ended.unwrap());
        }
    }
    failed += tasks.join_all().await.into_iter().map(u64::from).sum::<u64>();
    (checks, failed)
}
