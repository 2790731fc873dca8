//! Many clients of one server, and what the server saw of them.

use std::time::{Duration, Instant};

use tollgate::AlgorithmKind;

use crate::server::{Arrival, Server};
use crate::strategies::Strategy;

pub(crate) const CLIENTS: usize = 50;

/// The permitted requests per second of all clients, in all cases.
const PERMITTED_PER_S: f64 = 500.0;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) limit: &'static str,
    pub(crate) algorithm: AlgorithmKind,
    pub(crate) own_keys: bool,
    pub(crate) warm_up: Duration,
    pub(crate) time: Duration,
}

pub(crate) struct Measured {
    arrivals: Vec<Arrival>,
    start: Instant,
    time: Duration,
}

/// Lets all clients send with one strategy. What arrives in the warm-up does not count.
pub(crate) fn run(case: &Case, strategy: Strategy) -> Measured {
    eprintln!("{}: {}", case.name, strategy.name());
    let server = Server::start(case.limit, case.algorithm);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let start = runtime.block_on(async {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://{}/", server.address);
        let key = |at: usize| if case.own_keys { format!("key-{at}") } else { "shared".to_owned() };
        let run = |at| tokio::spawn(strategy.run(client.clone(), url.clone(), key(at)));
        let tasks: Vec<_> = (0..CLIENTS).map(run).collect();
        tokio::time::sleep(case.warm_up).await;
        let start = Instant::now();
        tokio::time::sleep(case.time).await;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        start
    });
    let within = |arrival: &Arrival| arrival.at >= start && arrival.at < start + case.time;
    let arrivals = server.arrivals().into_iter().filter(within).collect();
    Measured { arrivals, start, time: case.time }
}

impl Measured {
    pub(crate) fn used_percent(&self) -> f64 {
        let accepted = self.arrivals.iter().filter(|arrival| arrival.is_accepted).count();
        accepted as f64 * 100.0 / (PERMITTED_PER_S * self.time.as_secs_f64())
    }

    pub(crate) fn refused_percent(&self) -> f64 {
        let refused = self.arrivals.iter().filter(|arrival| !arrival.is_accepted).count();
        refused as f64 * 100.0 / self.arrivals.len() as f64
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.arrivals.len() as f64 / self.time.as_secs_f64()
    }

    /// Returns the busiest tenth of a second, as a multiple of the mean.
    pub(crate) fn peak(&self) -> f64 {
        let tenths = self.time.as_millis() as usize / 100;
        let mut counts = vec![0_usize; tenths + 1];
        for arrival in &self.arrivals {
            counts[(arrival.at - self.start).as_millis() as usize / 100] += 1;
        }
        let most = counts.into_iter().max().unwrap_or(0);
        most as f64 * tenths as f64 / self.arrivals.len() as f64
    }

    /// Returns the share of the arrivals in each second of a window of ten, in per cent.
    pub(crate) fn by_second(&self) -> [f64; 10] {
        let mut counts = [0_usize; 10];
        self.arrivals.iter().for_each(|arrival| counts[arrival.second] += 1);
        counts.map(|count| count as f64 * 100.0 / self.arrivals.len() as f64)
    }
}
