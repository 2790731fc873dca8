use std::sync::Arc;

use super::bursts::MIN_BURST_REQUESTS;
use super::frequent_clients::Tracked;
use super::windows::Windows;
use crate::observe::log::line_budget::{LineKind, Spent};

const S_NS: u64 = 1_000_000_000;

/// How long a window of refusals and near misses is: what is told is of the last 30 to 60 seconds.
pub(in crate::observe) const WINDOW_NS: u64 = 30 * S_NS;

/// How long a window is in which the requests of a client are counted, to see whether they surge.
pub(in crate::observe) const TRAFFIC_WINDOW_NS: u64 = 10 * S_NS;

/// Of so many requests one is looked at for that.
pub(in crate::observe) const SAMPLED_ONE_IN: u64 = 16;

/// The clients of one rule.
#[derive(Debug)]
pub(in crate::observe) struct RuleClients {
    pub(in crate::observe) rule: Arc<str>,
    /// Who was refused, or would have been by a rule that is only watched.
    pub(in crate::observe) refused: Windows,
    /// Who passed, and has nearly used up the limit.
    pub(in crate::observe) near: Windows,
    /// Who asked at all, from a sample.
    pub(in crate::observe) traffic: Windows,
    /// Violations of which no line was written.
    pub(in crate::observe) left_out: u64,
}

/// What is known of a request under one rule.
#[derive(Clone, Copy, Debug)]
pub(in crate::observe) struct Sighting {
    pub(in crate::observe) fingerprint: u64,
    pub(in crate::observe) now_ns: u64,
    /// Refused, or it would have been.
    pub(in crate::observe) is_refused: bool,
    /// Passed with at most a tenth of the limit left.
    pub(in crate::observe) is_near: bool,
    /// Chosen for the sample of all requests.
    pub(in crate::observe) is_sampled: bool,
    /// Refused by a rule that is only watched.
    pub(in crate::observe) is_watched: bool,
    /// Something that deserves a line.
    pub(in crate::observe) is_violation: bool,
}

impl RuleClients {
    pub(in crate::observe) fn new(rule: &Arc<str>, capacity: usize) -> RuleClients {
        RuleClients {
            rule: Arc::clone(rule),
            refused: Windows::new(WINDOW_NS, capacity),
            near: Windows::new(WINDOW_NS, capacity),
            traffic: Windows::new(TRAFFIC_WINDOW_NS, capacity),
            left_out: 0,
        }
    }

    /// Counts a request, and says which line is to be written of it, if any.
    /// `name` gives a client its name, if there is time for it.
    #[inline]
    pub(in crate::observe) fn see(
        &mut self,
        sighting: Sighting,
        spent: Spent,
        mut name: impl FnMut() -> Option<Arc<str>>,
    ) -> Option<LineKind> {
        let Sighting { fingerprint, now_ns, .. } = sighting;
        let mut is_first = false;
        let mut give_name = |tracked: &mut Tracked| {
            if tracked.name.is_none() {
                tracked.name = name();
            }
        };
        if sighting.is_refused {
            let (is_new, tracked) = self.refused.count(fingerprint, 1, now_ns);
            is_first = is_new;
            give_name(tracked);
        }
        if sighting.is_near {
            give_name(self.near.count(fingerprint, 1, now_ns).1);
        }
        if sighting.is_sampled {
            let (_, tracked) = self.traffic.count(fingerprint, SAMPLED_ONE_IN, now_ns);
            // Only a burst is told of. What makes one may be spread over all threads.
            if tracked.count - tracked.error >= MIN_BURST_REQUESTS / 10 {
                give_name(tracked);
            }
        }
        if !sighting.is_violation {
            return None;
        }
        // In a flood this is all that is looked at.
        if spent.is_all() {
            self.left_out += 1;
            return None;
        }
        let kind = match (sighting.is_refused, sighting.is_watched) {
            (_, true) => LineKind::Watched,
            (true, false) if is_first => LineKind::First,
            (true, false) => LineKind::Repeated,
            (false, false) => LineKind::Other,
        };
        let is_written = spent.allows(kind);
        self.left_out += u64::from(!is_written);
        is_written.then_some(kind)
    }

    pub(in crate::observe) fn forget_clients(&mut self) {
        self.refused.clear();
        self.near.clear();
        self.traffic.clear();
    }
}
