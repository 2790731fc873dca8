//! One nominal limit under all algorithms, on the same traffic.

mod algorithm_run;
mod passed_times;

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate::quota::{Queue, QuotaError};
use tollgate::{Quota, Rate};

use crate::record::LogRecord;
use crate::tally::client_index::ClientIndex;
use crate::tally::percent;
use crate::tally::time_series::TimeSeries;
use crate::traffic::Arrival;
pub use algorithm_run::ALGORITHM_COUNT;
use algorithm_run::{AlgorithmRun, ClientState};

/// The kinds of the series: the algorithms, and all requests.
pub(crate) const SERIES_KINDS: usize = ALGORITHM_COUNT + 1;
pub(crate) const REQUESTED: usize = ALGORITHM_COUNT;

/// The position of the queue, whose requests pass when they leave it.
const QUEUE: usize = 2;

/// The position of the sliding window log, to which the others are compared.
const EXACT: usize = 4;

/// The time after which clients that no longer matter are dropped, in windows.
const SWEEP_WINDOWS: u64 = 1;

/// A limit under all algorithms. Requests are counted in the order of time; `finish` returns the comparison.
pub struct Comparer {
    rate: Rate,
    runs: [AlgorithmRun; ALGORITHM_COUNT],
    names: ClientIndex,
    clients: HashMap<u32, ClientState, RandomState>,
    /// One more than the highest number of a client, which are given in the order of the first requests.
    client_count: u64,
    requests: u64,
    now_ns: u64,
    next_sweep_ns: u64,
    over_time: TimeSeries<SERIES_KINDS>,
}

/// When a request passes under each algorithm, in nanoseconds since 1970; `None` if it is refused.
pub type PassTimes = [Option<u64>; ALGORITHM_COUNT];

/// The result of [`Comparer`].
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The limit.
    pub rate: Rate,
    /// The number of requests.
    pub requests: u64,
    /// The number of clients.
    pub clients: u64,
    /// The result of each algorithm.
    pub algorithms: Vec<AlgorithmResult>,
    /// The admitted requests over time, by algorithm, and then all requests.
    pub over_time: TimeSeries<SERIES_KINDS>,
}

/// How one algorithm decided the traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlgorithmResult {
    /// The name of the algorithm, as in a policy.
    pub algorithm: &'static str,
    /// The number of requests that passed, at once or after a delay.
    pub admitted: u64,
    /// The number of requests that were refused.
    pub refused: u64,
    /// The most requests of one client that passed in any span of the limit's period.
    pub max_in_window: u64,
    /// The most requests of one client that passed in any second.
    pub max_in_second: u64,
    /// The number of requests that the sliding window log decided otherwise.
    pub wrong: u64,
    /// `wrong` in percent of the requests.
    pub wrong_percent: f64,
    /// The longest delay of an admitted request, in nanoseconds.
    pub longest_delay_ns: u64,
    /// The longest time until a refused request would have passed, in nanoseconds.
    pub longest_retry_ns: u64,
    /// The bytes of the largest state of a client.
    pub bytes_per_client: u64,
}

impl AlgorithmResult {
    /// Returns the longest time that any request had to wait until it could pass, in nanoseconds.
    #[must_use]
    pub fn longest_wait_ns(&self) -> u64 {
        self.longest_delay_ns.max(self.longest_retry_ns)
    }
}

impl Comparer {
    /// Creates a comparison for a limit. A burst applies to buckets, and is the size of the queue.
    ///
    /// # Errors
    /// The limit is not possible under one of the algorithms.
    pub fn new(rate: Rate) -> Result<Comparer, QuotaError> {
        let without_burst = Rate::new(rate.count(), rate.period()).unwrap_or(rate);
        let queue = Queue { size: rate.burst().unwrap_or(rate.count()), max_wait: None };
        let quotas = [
            ("token-bucket", Quota::token_bucket(rate)?),
            ("leaky-bucket", Quota::leaky_bucket(rate)?),
            ("leaky-bucket-queue", Quota::leaky_queue(without_burst, queue)?),
            ("fixed-window", Quota::fixed_window(without_burst)?),
            ("sliding-window-log", Quota::sliding_window_log(without_burst)?),
            ("sliding-window-counter", Quota::sliding_window_counter(without_burst)?),
        ];
        Ok(Comparer {
            rate,
            runs: quotas.map(|(name, quota)| AlgorithmRun::new(name, &quota)),
            names: ClientIndex::default(),
            clients: HashMap::default(),
            client_count: 0,
            requests: 0,
            now_ns: 0,
            next_sweep_ns: 0,
            over_time: TimeSeries::default(),
        })
    }

    /// Counts a request of a log under the client's address, or else its user. Returns whether it has one of them.
    pub fn record(&mut self, record: &LogRecord<'_>) -> bool {
        let client = match (record.client_ip, record.user) {
            (Some(address), _) => self.names.address(address),
            (None, Some(user)) => self.names.text(user),
            (None, None) => return false,
        };
        self.arrival(&Arrival { time_ns: record.time_ns, client });
        true
    }

    /// Counts a request, and returns when it passes. A time before that of the last request is taken as that time.
    pub fn arrival(&mut self, arrival: &Arrival) -> PassTimes {
        self.now_ns = self.now_ns.max(arrival.time_ns);
        self.sweep();
        let (now_ns, window_ns) = (self.now_ns, self.rate.period_ns());
        self.requests += 1;
        self.over_time.count(now_ns, REQUESTED);
        self.client_count = self.client_count.max(u64::from(arrival.client) + 1);
        let client = self.clients.entry(arrival.client).or_insert_with(|| ClientState::new(&self.runs));
        client.last_ns = now_ns;
        let mut passes_at = [None; ALGORITHM_COUNT];
        for ((at, run), passes_at) in self.runs.iter_mut().enumerate().zip(&mut passes_at) {
            *passes_at = run.decide(&mut client.states[at], now_ns);
            if let Some(time_ns) = *passes_at {
                self.over_time.count(time_ns, at);
            }
        }
        for (run, passes_here) in self.runs.iter_mut().zip(passes_at) {
            run.wrong += u64::from(passes_here.is_some() != passes_at[EXACT].is_some());
        }
        let result = passes_at;
        if let Some(time_ns) = passes_at[QUEUE].take() {
            let only_queue = std::array::from_fn(|at| at == QUEUE);
            self.runs[QUEUE].count_most(client.left_queue.record(time_ns, only_queue, window_ns)[QUEUE]);
        }
        let most = client.passed.record(now_ns, passes_at.map(|time_ns| time_ns.is_some()), window_ns);
        self.runs.iter_mut().zip(most).for_each(|(run, most)| run.count_most(most));
        result
    }

    /// Returns the result.
    #[must_use]
    pub fn finish(self) -> Comparison {
        let requests = self.requests;
        let result = |run: &AlgorithmRun| AlgorithmResult {
            algorithm: run.name,
            admitted: run.admitted,
            refused: requests - run.admitted,
            max_in_window: run.max_in_window,
            max_in_second: run.max_in_second,
            wrong: run.wrong,
            wrong_percent: percent(run.wrong, requests),
            longest_delay_ns: run.longest_delay_ns,
            longest_retry_ns: run.longest_retry_ns,
            bytes_per_client: run.max_bytes,
        };
        Comparison {
            rate: self.rate,
            requests,
            clients: self.client_count,
            algorithms: self.runs.iter().map(result).collect(),
            over_time: self.over_time,
        }
    }

    /// Drops clients whose state equals that of a new client, so that memory is bounded by the active ones.
    fn sweep(&mut self) {
        if self.now_ns < self.next_sweep_ns {
            return;
        }
        let (now_ns, window_ns) = (self.now_ns, self.rate.period_ns());
        self.next_sweep_ns = now_ns.saturating_add(SWEEP_WINDOWS * window_ns.max(1_000_000_000));
        let runs = &self.runs;
        self.clients.retain(|_, client| !client.is_idle(runs, now_ns, window_ns));
    }
}

#[cfg(test)]
mod tests;
