use serde::Serialize;
use tollgate::Rate;
use tollgate_workbench::compare::{ALGORITHM_COUNT, Comparison, PassTimes};
use tollgate_workbench::traffic::Arrival;

/// The steps of a timeline: as many as a narrow screen can show.
const STEPS: usize = 120;

const US_NS: u64 = 1_000;

/// The outcomes of requests over time.
pub(super) struct Timeline {
    begin_ns: u64,
    step_ns: u64,
    window_ns: u64,
    requests: [u64; STEPS],
    /// By algorithm.
    passed: [[u64; STEPS]; ALGORITHM_COUNT],
    delayed: [[u64; STEPS]; ALGORITHM_COUNT],
}

#[derive(Debug, Serialize)]
pub(super) struct TimelineBody {
    step_us: u64,
    span_us: u64,
    /// Where windows of the clock begin, from the start of the timeline.
    windows_begin_us: Vec<u64>,
    /// The requests that arrive in each step.
    requests: Vec<u64>,
    algorithms: Vec<AlgorithmTimelineBody>,
}

/// The requests of each step that pass at once, and that pass later. All others are refused.
#[derive(Debug, Serialize)]
struct AlgorithmTimelineBody {
    algorithm: &'static str,
    passed: Vec<u64>,
    delayed: Vec<u64>,
}

impl Timeline {
    /// Creates a timeline from the first to the last request.
    pub(super) fn around(arrivals: &[Arrival], rate: &Rate) -> Timeline {
        let begin_ns = arrivals.first().map_or(0, |first| first.time_ns);
        let end_ns = arrivals.last().map_or(0, |last| last.time_ns);
        Timeline::new(begin_ns, end_ns - begin_ns + 1, rate.period_ns())
    }

    /// Creates a timeline of this many windows. It begins where drawn traffic does.
    pub(super) fn of_windows(rate: &Rate, windows: u64) -> Timeline {
        let first = tollgate_workbench::traffic::drawn_arrivals(rate, 1, &[1]);
        let begin_ns = first.first().map_or(0, |first| first.time_ns);
        Timeline::new(begin_ns, windows * rate.period_ns(), rate.period_ns())
    }

    fn new(begin_ns: u64, span_ns: u64, window_ns: u64) -> Timeline {
        Timeline {
            begin_ns,
            step_ns: span_ns.div_ceil(STEPS as u64).max(1),
            window_ns,
            requests: [0; STEPS],
            passed: [[0; STEPS]; ALGORITHM_COUNT],
            delayed: [[0; STEPS]; ALGORITHM_COUNT],
        }
    }

    /// Adds a request and when it passes.
    pub(super) fn add(&mut self, arrival: &Arrival, passes: PassTimes) {
        let step = (arrival.time_ns.saturating_sub(self.begin_ns) / self.step_ns).min(STEPS as u64 - 1) as usize;
        self.requests[step] += 1;
        for (at, time_ns) in passes.into_iter().enumerate() {
            match time_ns {
                Some(time_ns) if time_ns > arrival.time_ns => self.delayed[at][step] += 1,
                Some(_) => self.passed[at][step] += 1,
                None => {}
            }
        }
    }

    pub(super) fn body(&self, comparison: &Comparison) -> TimelineBody {
        let span_ns = self.step_ns * STEPS as u64;
        let first = self.begin_ns.div_ceil(self.window_ns) * self.window_ns;
        let begins = std::iter::successors(Some(first), |begin| begin.checked_add(self.window_ns));
        let within = begins.take_while(|begin| begin - self.begin_ns < span_ns);
        let algorithms = comparison.algorithms.iter().zip(self.passed.iter().zip(&self.delayed));
        TimelineBody {
            step_us: self.step_ns.div_ceil(US_NS),
            span_us: span_ns.div_ceil(US_NS),
            windows_begin_us: within.map(|begin| (begin - self.begin_ns) / US_NS).collect(),
            requests: self.requests.to_vec(),
            algorithms: algorithms
                .map(|(result, (passed, delayed))| AlgorithmTimelineBody {
                    algorithm: result.algorithm,
                    passed: passed.to_vec(),
                    delayed: delayed.to_vec(),
                })
                .collect(),
        }
    }
}
