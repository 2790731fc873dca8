//! What the observer does now and then: it sums up, and looks for bursts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::event::{Burst, Event, LeftOut};
use super::observer::Observer;
use super::timestamp::Timestamp;
use crate::observe::clients::bursts::Bursts;
use crate::observe::clients::rule_clients::{TRAFFIC_WINDOW_NS, Which};

const S_NS: u64 = 1_000_000_000;

/// How often it is told what had no line of its own.
const SUMMARY_EVERY_NS: u64 = 10 * S_NS;

/// How many rules are named there.
const RULES_IN_SUMMARY: usize = 5;

/// How many bursts of one window have lines; the others are only counted.
const BURSTS_IN_WINDOW: usize = 8;

/// What is done now and then.
#[derive(Debug, Default)]
pub(super) struct Periodic {
    /// The numbers of the windows that were looked at last.
    summary: u64,
    traffic: u64,
    pub(super) bursts: Bursts,
    /// How many bursts each rule has had.
    pub(super) burst_counts: BTreeMap<Arc<str>, u64>,
}

impl Periodic {
    /// What was before that time is nobody's business.
    pub(super) fn from(now_ns: u64) -> Periodic {
        let (summary, traffic) = (now_ns / SUMMARY_EVERY_NS, now_ns / TRAFFIC_WINDOW_NS);
        Periodic { summary, traffic, ..Periodic::default() }
    }
}

impl Observer {
    /// What is to be done about once a second: sums up what had no line of its
    /// own, and looks for bursts.
    pub fn look_around(&self) {
        let now_ns = self.clock.now_ns();
        let mut periodic = self.periodic();
        let (summary, traffic) = (now_ns / SUMMARY_EVERY_NS, now_ns / TRAFFIC_WINDOW_NS);
        if summary > periodic.summary {
            periodic.summary = summary;
            self.sum_up(now_ns);
        }
        if traffic > periodic.traffic {
            periodic.traffic = traffic;
            let sudden = periodic.bursts.look(&self.shards.tallies(Which::Traffic, now_ns));
            for (at, burst) in sudden.into_iter().enumerate() {
                *periodic.burst_counts.entry(Arc::clone(&burst.rule)).or_default() += 1;
                if at < BURSTS_IN_WINDOW {
                    let (rule, client, requests, usual) = (burst.rule, burst.name, burst.requests, burst.usual);
                    let (time, window_s) = (Timestamp(now_ns), TRAFFIC_WINDOW_NS / S_NS);
                    self.tell(Event::Burst(Burst { time, rule, client, requests, usual, window_s }));
                }
            }
        }
    }

    fn sum_up(&self, now_ns: u64) {
        let mut by_rule: Vec<(Arc<str>, u64)> = self.shards.take_left_out().into_iter().collect();
        let of_rules: u64 = by_rule.iter().map(|(_, count)| count).sum();
        let violations = of_rules + self.left_out.swap(0, Relaxed);
        if violations == 0 {
            return;
        }
        by_rule.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        by_rule.truncate(RULES_IN_SUMMARY);
        let (time, lines_dropped) = (Timestamp(now_ns), self.lines_dropped());
        self.tell(Event::LeftOut(LeftOut { time, violations, by_rule, lines_dropped }));
    }
}
