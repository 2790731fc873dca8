use serde::Serialize;
use tollgate::Rate;
use tollgate_workbench::compare::{ALGORITHM_COUNT, Comparison, PassTimes};
use tollgate_workbench::traffic::Arrival;

/// The most steps of a timeline, and the fewest for generated traffic: as many as a narrow screen can show.
const MAX_STEPS: u64 = 120;
const MIN_STEPS: u64 = 60;

/// The steps of each slot of drawn traffic: few, because a slot has few requests.
const STEPS_PER_SLOT: u64 = 3;

const US_NS: u64 = 1_000;

/// The outcomes of requests over time.
pub(super) struct Timeline {
    begin_ns: u64,
    step_ns: u64,
    window_ns: u64,
    requests: Vec<u64>,
    /// By algorithm.
    passed: [Vec<u64>; ALGORITHM_COUNT],
    delayed: [Vec<u64>; ALGORITHM_COUNT],
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
        let last_ns = arrivals.last().map_or(0, |last| last.time_ns) - begin_ns;
        // Evenly spread requests are in the middle of their time.
        let count = arrivals.len() as u64;
        let distance_ns = last_ns / count.saturating_sub(1).max(1);
        Timeline::new(begin_ns - distance_ns / 2, last_ns + distance_ns + 1, rate.period_ns(), even_steps(count))
    }

    /// Creates a timeline of this many windows with this many slots in all. It begins where drawn traffic does.
    pub(super) fn of_windows(rate: &Rate, windows: u64, slots: u64) -> Timeline {
        let first = tollgate_workbench::traffic::drawn_arrivals(rate, 1, &[1]);
        let begin_ns = first.first().map_or(0, |first| first.time_ns);
        Timeline::new(begin_ns, windows * rate.period_ns(), rate.period_ns(), slots * STEPS_PER_SLOT)
    }

    fn new(begin_ns: u64, span_ns: u64, window_ns: u64, steps: u64) -> Timeline {
        let zeros = || vec![0; steps as usize];
        Timeline {
            begin_ns,
            step_ns: span_ns.div_ceil(steps).max(1),
            window_ns,
            requests: zeros(),
            passed: std::array::from_fn(|_| zeros()),
            delayed: std::array::from_fn(|_| zeros()),
        }
    }

    /// Adds a request and when it passes.
    pub(super) fn add(&mut self, arrival: &Arrival, passes: PassTimes) {
        let step =
            (arrival.time_ns.saturating_sub(self.begin_ns) / self.step_ns).min(self.requests.len() as u64 - 1) as usize;
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
        let span_ns = self.step_ns * self.requests.len() as u64;
        let first = self.begin_ns.div_ceil(self.window_ns) * self.window_ns;
        let begins = std::iter::successors(Some(first), |begin| begin.checked_add(self.window_ns));
        let within = begins.take_while(|begin| begin - self.begin_ns < span_ns);
        let algorithms = comparison.algorithms.iter().zip(self.passed.iter().zip(&self.delayed));
        TimelineBody {
            step_us: self.step_ns.div_ceil(US_NS),
            span_us: span_ns.div_ceil(US_NS),
            windows_begin_us: within.map(|begin| (begin - self.begin_ns) / US_NS).collect(),
            requests: self.requests.clone(),
            algorithms: algorithms
                .map(|(result, (passed, delayed))| AlgorithmTimelineBody {
                    algorithm: result.algorithm,
                    passed: passed.clone(),
                    delayed: delayed.clone(),
                })
                .collect(),
        }
    }
}

/// Returns a number of steps that have equally many of evenly spread requests, if there is one.
fn even_steps(requests: u64) -> u64 {
    (MIN_STEPS..=MAX_STEPS).rev().find(|steps| requests.is_multiple_of(*steps)).unwrap_or(MAX_STEPS)
}

#[cfg(test)]
mod tests {
    use tollgate_workbench::compare::Comparer;
    use tollgate_workbench::traffic::TrafficPattern;

    use super::*;

    #[test]
    fn boundary_traffic_is_even_around_the_boundary() {
        let rate: Rate = "100/min".parse().unwrap();
        let arrivals = TrafficPattern::Boundary.arrivals(&rate).unwrap();
        let mut timeline = Timeline::around(&arrivals, &rate);
        let mut comparer = Comparer::new(rate).unwrap();
        for arrival in &arrivals {
            timeline.add(arrival, comparer.arrival(arrival));
        }
        let body = timeline.body(&comparer.finish());
        assert_eq!(body.requests, vec![2; 100]);
        assert!(body.windows_begin_us[0].abs_diff(body.span_us / 2) <= 2 * body.step_us, "{body:?}");
        let passed = |algorithm: &str| -> u64 {
            let found = body.algorithms.iter().find(|one| one.algorithm == algorithm);
            found.unwrap().passed.iter().sum()
        };
        assert_eq!((passed("fixed-window"), passed("sliding-window-log")), (200, 100));
    }
}
