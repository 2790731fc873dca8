//! The simulated exchange between regions: the servers of hashes, the links to them, and the failures of both.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tollgate_store::BoxFuture;

use super::world::BEGAN_US;
use crate::regions::{Exchange, ExchangeServer, HashOp, HashReply, HashServer};
use crate::store::random::Random;

/// The timeout of a call.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The servers of hashes: one of each region, and the global one.
pub(super) struct HashWorld {
    random: Random,
    regional: Vec<HashServer>,
    global: HashServer,
    /// The replica of the global server, which lags behind.
    global_replica: HashServer,
    /// By how much the clock of the global server is ahead, in microseconds, and how many parts in a million fast.
    global_ahead_us: i64,
    global_drift_ppm: i64,
    started: Instant,
    /// Links that are cut: the region, the instance (`None`: all), the server, and the end.
    cuts: Vec<(usize, Option<usize>, ExchangeServer, Instant)>,
    /// The number of calls in a thousand that fail by themselves.
    pub(super) faults_per_mille: u32,
    /// The longest delay of a call that is late.
    pub(super) late: Duration,
}

pub(super) type SharedHashes = Arc<Mutex<HashWorld>>;

/// The exchange of one instance.
pub(super) struct SimulatedExchange {
    pub(super) hashes: SharedHashes,
    pub(super) region: usize,
    pub(super) instance: usize,
}

/// When a call is executed and answered; `None` if it never is.
struct CallFate {
    executed_after: Option<Duration>,
    answered_after: Option<Duration>,
}

impl HashWorld {
    pub(super) fn new(mut random: Random, regions: usize, accepts_late_reports: bool) -> HashWorld {
        let global_ahead_us = i64::from(random.below(8_000_000)) - 4_000_000;
        let global_drift_ppm = i64::from(random.below(401)) - 200;
        let mut global = HashServer::default();
        global.accepts_late_reports = accepts_late_reports;
        HashWorld {
            random,
            regional: vec![HashServer::default(); regions],
            global_replica: global.clone(),
            global,
            global_ahead_us,
            global_drift_ppm,
            started: Instant::now(),
            cuts: Vec::new(),
            faults_per_mille: 0,
            late: Duration::from_secs(2),
        }
    }

    pub(super) fn cut(&mut self, region: usize, instance: Option<usize>, server: ExchangeServer, lasts: Duration) {
        self.cuts.push((region, instance, server, Instant::now() + lasts));
    }

    pub(super) fn heal(&mut self) {
        self.faults_per_mille = 0;
        self.cuts.clear();
    }

    pub(super) fn replicate_global(&mut self) {
        self.global_replica = self.global.clone();
    }

    /// Promotes the replica of the global server, which lacks the last writes.
    pub(super) fn fail_over_global(&mut self) {
        self.global = self.global_replica.clone();
    }

    /// The global server loses everything.
    pub(super) fn flush_global(&mut self) {
        (self.global, self.global_replica) = Default::default();
    }

    pub(super) fn step_global_clock(&mut self, by_us: i64) {
        self.global_ahead_us += by_us;
    }

    fn fate(&mut self, region: usize, instance: usize, server: ExchangeServer) -> CallFate {
        let now = Instant::now();
        let is_cut = self.cuts.iter().any(|(cut, who, which, until)| {
            *cut == region && who.is_none_or(|who| who == instance) && *which == server && now < *until
        });
        let most_ms = if server == ExchangeServer::Global { 20 } else { 3 };
        let there = Duration::from_millis(u64::from(self.random.below(most_ms)));
        let back = Duration::from_millis(u64::from(self.random.below(most_ms)));
        if is_cut {
            return CallFate { executed_after: None, answered_after: None };
        }
        if self.random.below(1_000) >= self.faults_per_mille {
            return CallFate { executed_after: Some(there), answered_after: Some(there + back) };
        }
        let late = self.late * self.random.below(1_000) / 1_000;
        match self.random.below(4) {
            0 => CallFate { executed_after: None, answered_after: None },
            1 => CallFate { executed_after: Some(there), answered_after: None },
            2 => CallFate { executed_after: Some(there + late), answered_after: Some(there + late + back) },
            _ => CallFate { executed_after: Some(there), answered_after: Some(there + late) },
        }
    }

    fn execute(&mut self, region: usize, server: ExchangeServer, name: &str, op: HashOp) -> (u64, HashReply) {
        let true_us = self.started.elapsed().as_micros() as i64;
        match server {
            ExchangeServer::Regional => {
                let now_us = BEGAN_US + true_us as u64;
                (now_us, self.regional[region].run(name, op, now_us))
            }
            ExchangeServer::Global => {
                let ahead_us = self.global_ahead_us + true_us * self.global_drift_ppm / 1_000_000;
                let now_us = (BEGAN_US + true_us as u64).saturating_add_signed(ahead_us);
                (now_us, self.global.run(name, op, now_us))
            }
        }
    }
}

impl Exchange for SimulatedExchange {
    fn run(&self, server: ExchangeServer, name: String, op: HashOp) -> BoxFuture<'_, Option<(u64, HashReply)>> {
        let (hashes, region, instance) = (Arc::clone(&self.hashes), self.region, self.instance);
        Box::pin(async move {
            let CallFate { executed_after, answered_after } = hashes.lock().unwrap().fate(region, instance, server);
            // The server executes the call even if the caller has given up, or is dead.
            let executed = tokio::spawn(async move {
                sleep(executed_after?).await;
                let reply = hashes.lock().unwrap().execute(region, server, &name, op);
                sleep(answered_after? - executed_after?).await;
                Some(reply)
            });
            let answered = timeout(TIMEOUT, async {
                match executed.await {
                    Ok(Some(reply)) => reply,
                    _ => std::future::pending().await,
                }
            });
            answered.await.ok()
        })
    }
}
