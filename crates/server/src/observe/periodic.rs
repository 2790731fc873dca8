//! Periodic work of the observer: summaries and burst detection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::event::{Burst, Event, LeftOut};
use super::observer::Observer;
use super::timestamp::Timestamp;
use crate::observe::clients::bursts::Bursts;
use crate::observe::clients::rule_clients::{ClientTable, TRAFFIC_WINDOW_NS};

const S_NS: u64 = 1_000_000_000;

/// The interval of summaries of omitted lines.
const SUMMARY_EVERY_NS: u64 = 10 * S_NS;

/// The maximum number of rules in a summary.
const MAX_RULES_IN_SUMMARY: usize = 5;

/// The maximum number of bursts of one window with a line; others are only counted.
const MAX_BURSTS_IN_WINDOW: usize = 8;

/// The state of periodic work.
#[derive(Debug, Default)]
pub(super) struct Periodic {
    /// The indexes of the last processed windows.
    summary: u64,
    traffic: u64,
    pub(super) bursts: Bursts,
    /// The number of bursts of each rule.
    pub(super) burst_counts: BTreeMap<Arc<str>, u64>,
}

impl Periodic {
    /// Starts at that time; earlier windows are ignored.
    pub(super) fn from(now_ns: u64) -> Periodic {
        let (summary, traffic) = (now_ns / SUMMARY_EVERY_NS, now_ns / TRAFFIC_WINDOW_NS);
        Periodic { summary, traffic, ..Periodic::default() }
    }
}

impl Observer {
    /// Summarizes omitted lines and detects bursts. Call it about once a second.
    pub fn run_periodic(&self) {
        let now_ns = self.clock.now_ns();
        let mut periodic = self.periodic();
        let (summary, traffic) = (now_ns / SUMMARY_EVERY_NS, now_ns / TRAFFIC_WINDOW_NS);
        if summary > periodic.summary {
            periodic.summary = summary;
            self.summarize(now_ns);
        }
        if traffic > periodic.traffic {
            periodic.traffic = traffic;
            let bursts = periodic.bursts.process(&self.shards.tallies(ClientTable::Traffic, now_ns));
            for (at, burst) in bursts.into_iter().enumerate() {
                *periodic.burst_counts.entry(Arc::clone(&burst.rule)).or_default() += 1;
                if at < MAX_BURSTS_IN_WINDOW {
                    let (rule, client, requests, usual) = (burst.rule, burst.name, burst.requests, burst.usual);
                    let (time, window_s) = (Timestamp(now_ns), TRAFFIC_WINDOW_NS / S_NS);
                    self.emit(Event::Burst(Burst { time, rule, client, requests, usual, window_s }));
                }
            }
        }
    }

    fn summarize(&self, now_ns: u64) {
        let mut by_rule: Vec<(Arc<str>, u64)> = self.shards.take_left_out().into_iter().collect();
        let of_rules: u64 = by_rule.iter().map(|(_, count)| count).sum();
        let violations = of_rules + self.left_out.swap(0, Relaxed);
        if violations == 0 {
            return;
        }
        by_rule.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        by_rule.truncate(MAX_RULES_IN_SUMMARY);
        let (time, lines_dropped) = (Timestamp(now_ns), self.lines_dropped());
        self.emit(Event::LeftOut(LeftOut { time, violations, by_rule, lines_dropped }));
    }
}
