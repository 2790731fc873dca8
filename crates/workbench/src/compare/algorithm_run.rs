//! One algorithm of a comparison: its decisions and their figures.

use tollgate::Quota;
use tollgate::quota::{ChargeVerdict, Decision, Tick};
use tollgate_core::{Algorithm, BucketState, CompiledQuota, CounterState, LogState, WindowState};

use super::passed_times::PassedTimes;

/// The number of compared algorithms.
pub const ALGORITHM_COUNT: usize = 6;

/// The bytes of a bucket in the memory store, which packs it into one 16-byte compare-and-swap.
const BUCKET_BYTES: u64 = 16;

/// The figures of an algorithm.
pub(super) struct AlgorithmRun {
    pub(super) name: &'static str,
    quota: CompiledQuota,
    pub(super) admitted: u64,
    pub(super) max_in_window: u64,
    pub(super) max_in_second: u64,
    pub(super) wrong: u64,
    pub(super) longest_delay_ns: u64,
    pub(super) longest_retry_ns: u64,
    pub(super) max_bytes: u64,
}

/// The states of a client under all algorithms.
pub(super) struct ClientState {
    pub(super) last_ns: u64,
    pub(super) states: [RunState; ALGORITHM_COUNT],
    pub(super) passed: PassedTimes,
    /// The requests that left the queue, which pass later than they arrive.
    pub(super) left_queue: PassedTimes,
}

/// The state of a client under one algorithm.
pub(super) enum RunState {
    Bucket(BucketState),
    FixedWindow(WindowState),
    SlidingCounter(CounterState),
    SlidingLog(LogState),
}

impl AlgorithmRun {
    pub(super) fn new(name: &'static str, quota: &Quota) -> AlgorithmRun {
        AlgorithmRun {
            name,
            quota: CompiledQuota::new(quota, Tick::Nanosecond),
            admitted: 0,
            max_in_window: 0,
            max_in_second: 0,
            wrong: 0,
            longest_delay_ns: 0,
            longest_retry_ns: 0,
            max_bytes: 0,
        }
    }

    /// Decides a request, and returns when it passes; `None` if it is refused.
    pub(super) fn decide(&mut self, state: &mut RunState, now_ns: u64) -> Option<u64> {
        let decision = decide(&self.quota, state, now_ns);
        self.max_bytes = self.max_bytes.max(state.bytes());
        match decision.verdict {
            ChargeVerdict::Allowed { delay } => {
                self.admitted += 1;
                self.longest_delay_ns = self.longest_delay_ns.max(delay);
                Some(now_ns.saturating_add(delay))
            }
            ChargeVerdict::Refused { retry_after } => {
                self.longest_retry_ns = self.longest_retry_ns.max(retry_after.unwrap_or(0));
                None
            }
            ChargeVerdict::Unavailable | ChargeVerdict::Impossible => None,
        }
    }
}

impl AlgorithmRun {
    /// Updates the most requests that passed in a window and in a second.
    pub(super) fn count_most(&mut self, (in_window, in_second): (u64, u64)) {
        self.max_in_window = self.max_in_window.max(in_window);
        self.max_in_second = self.max_in_second.max(in_second);
    }
}

impl ClientState {
    pub(super) fn new(runs: &[AlgorithmRun; ALGORITHM_COUNT]) -> ClientState {
        let states = std::array::from_fn(|at| RunState::unused(&runs[at].quota));
        ClientState { last_ns: 0, states, passed: PassedTimes::default(), left_queue: PassedTimes::default() }
    }

    /// Whether the client counts as a new one from now on.
    pub(super) fn is_idle(&self, runs: &[AlgorithmRun; ALGORITHM_COUNT], now_ns: u64, window_ns: u64) -> bool {
        let longest_ns = window_ns.max(1_000_000_000);
        let is_expired = |(run, state): (&AlgorithmRun, &RunState)| state.expires_at(&run.quota) <= now_ns;
        now_ns - self.last_ns >= longest_ns && runs.iter().zip(&self.states).all(is_expired)
    }
}

impl RunState {
    fn unused(quota: &CompiledQuota) -> RunState {
        match quota {
            CompiledQuota::FixedWindow(_) => RunState::FixedWindow(WindowState::default()),
            CompiledQuota::SlidingCounter(_) => RunState::SlidingCounter(CounterState::default()),
            CompiledQuota::SlidingLog(_) => RunState::SlidingLog(LogState::default()),
            CompiledQuota::Bucket(_) | CompiledQuota::Concurrency(_) => RunState::Bucket(BucketState::default()),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            RunState::Bucket(_) => BUCKET_BYTES,
            RunState::FixedWindow(_) => size_of::<WindowState>() as u64,
            RunState::SlidingCounter(_) => size_of::<CounterState>() as u64,
            RunState::SlidingLog(state) => (size_of::<LogState>() + state.heap_bytes()) as u64,
        }
    }

    fn expires_at(&self, quota: &CompiledQuota) -> u64 {
        match (quota, self) {
            (CompiledQuota::Bucket(bucket), RunState::Bucket(state)) => bucket.expires_at(state),
            (CompiledQuota::FixedWindow(window), RunState::FixedWindow(state)) => window.expires_at(state),
            (CompiledQuota::SlidingCounter(counter), RunState::SlidingCounter(state)) => counter.expires_at(state),
            (CompiledQuota::SlidingLog(log), RunState::SlidingLog(state)) => log.expires_at(state),
            _ => unreachable!("a state is created for its quota"),
        }
    }
}

fn decide(quota: &CompiledQuota, state: &mut RunState, now_ns: u64) -> Decision {
    match (quota, state) {
        (CompiledQuota::Bucket(bucket), RunState::Bucket(state)) => bucket.check(state, now_ns, 1),
        (CompiledQuota::FixedWindow(window), RunState::FixedWindow(state)) => window.check(state, now_ns, 1),
        (CompiledQuota::SlidingCounter(counter), RunState::SlidingCounter(state)) => counter.check(state, now_ns, 1),
        (CompiledQuota::SlidingLog(log), RunState::SlidingLog(state)) => log.check(state, now_ns, 1),
        _ => unreachable!("a state is created for its quota"),
    }
}
