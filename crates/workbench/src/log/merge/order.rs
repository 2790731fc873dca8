//! The order of one log's records. Servers write a line when a request ends, so lines are slightly out of order; a clock
//! that is set moves all lines after it.

use crate::log::chunk::{LogChunk, ParsedRecord};
use crate::log::summary::EXAMPLES_MAX;

/// A step ahead of this size is believed only if the next line confirms it. It is longer than requests take, because a
/// long request may follow a pause.
const UNCONFIRMED_STEP_NS: u64 = 3_600 * 1_000_000_000;

/// The order of one log.
#[derive(Debug, Default)]
pub(super) struct LogOrder {
    /// The latest time so far.
    newest_ns: Option<u64>,
    /// The time of the last record, if it is a step ahead that no later line has confirmed.
    unconfirmed_ns: Option<u64>,
}

/// What was repaired in a chunk.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Repairs {
    /// The records whose time was changed.
    pub(super) changed: u64,
    /// The first of them.
    pub(super) examples: Vec<RepairedRecord>,
    /// The unconfirmed record of a chunk before, if this chunk refutes it: the latest time before it, which it should
    /// have, and the time in its line.
    pub(super) refuted: Option<(u64, u64)>,
}

/// A record whose time was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RepairedRecord {
    /// Its line in the chunk.
    pub(super) line: u32,
    /// The latest time before it.
    pub(super) newest_ns: u64,
    /// The time in its line.
    pub(super) time_ns: u64,
}

impl LogOrder {
    /// Returns a time before which the log has no further records; `first_ns` is the time of its first record.
    pub(super) fn bound_ns(&self, first_ns: u64, tolerance_ns: u64) -> u64 {
        self.newest_ns.unwrap_or(first_ns).saturating_sub(tolerance_ns)
    }

    /// Whether the last record is a step ahead that no later line has confirmed.
    pub(super) fn has_unconfirmed(&self) -> bool {
        self.unconfirmed_ns.is_some()
    }

    /// Changes the times of records that are further behind than the tolerance or than `floor_ns`, and of single records
    /// far ahead of all others. The records stay sorted.
    pub(super) fn repair(&mut self, chunk: &mut LogChunk, tolerance_ns: u64, floor_ns: u64) -> Repairs {
        if chunk.records.is_empty() {
            return Repairs::default();
        }
        if self.is_in_order(chunk, tolerance_ns, floor_ns) {
            self.newest_ns = self.newest_ns.max(Some(chunk.times.max_ns));
            return Repairs::default();
        }
        chunk.records.sort_unstable_by_key(|record| record.line);
        let repairs = self.repair_lines(&mut chunk.records, tolerance_ns, floor_ns);
        chunk.records.sort_by_key(|record| record.time_ns);
        repairs
    }

    /// Whether no record needs a repair. Nearly all chunks are.
    fn is_in_order(&self, chunk: &LogChunk, tolerance_ns: u64, floor_ns: u64) -> bool {
        let times = &chunk.times;
        let newest_ns = self.newest_ns.unwrap_or(times.first_ns);
        self.unconfirmed_ns.is_none()
            && times.min_ns >= newest_ns.saturating_sub(tolerance_ns).max(floor_ns)
            && times.behind_ns_max <= tolerance_ns
            && times.ahead_ns_max <= UNCONFIRMED_STEP_NS
            && times.first_ns.saturating_sub(newest_ns) <= UNCONFIRMED_STEP_NS
    }

    fn repair_lines(&mut self, records: &mut [ParsedRecord], tolerance_ns: u64, floor_ns: u64) -> Repairs {
        let mut repairs = Repairs::default();
        let is_confirmed = |ahead_ns: u64, next_ns: u64| next_ns.saturating_add(tolerance_ns) >= ahead_ns;
        let mut newest_ns = self.newest_ns.unwrap_or(records[0].time_ns);
        if let Some(ahead_ns) = self.unconfirmed_ns.take() {
            if is_confirmed(ahead_ns, records[0].time_ns) {
                newest_ns = ahead_ns;
            } else {
                repairs.refuted = Some((newest_ns.max(floor_ns), ahead_ns));
            }
        }
        for at in 0..records.len() {
            let next_ns = records.get(at + 1).map(|next| next.time_ns);
            let record = &mut records[at];
            let time_ns = record.time_ns;
            let earliest_ns = newest_ns.saturating_sub(tolerance_ns).max(floor_ns);
            if time_ns < earliest_ns {
                repairs.change(record, newest_ns, earliest_ns);
            } else if time_ns.saturating_sub(newest_ns) <= UNCONFIRMED_STEP_NS {
                newest_ns = newest_ns.max(time_ns);
            } else {
                match next_ns {
                    Some(next_ns) if is_confirmed(time_ns, next_ns) => newest_ns = time_ns,
                    Some(_) => repairs.change(record, newest_ns, newest_ns.max(floor_ns)),
                    None => self.unconfirmed_ns = Some(time_ns),
                }
            }
        }
        self.newest_ns = Some(newest_ns);
        repairs
    }
}

impl Repairs {
    fn change(&mut self, record: &mut ParsedRecord, newest_ns: u64, to_ns: u64) {
        self.changed += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(RepairedRecord { line: record.line, newest_ns, time_ns: record.time_ns });
        }
        record.time_ns = to_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::{LogOrder, RepairedRecord, Repairs};
    use crate::log::chunk::{LogChunk, ParsedRecord};
    use crate::log::parse::times;

    const HOUR: u64 = 3_600_000_000_000;

    fn chunk(times_ns: &[u64]) -> LogChunk {
        let records = (0..).zip(times_ns).map(|(line, time_ns)| ParsedRecord {
            time_ns: *time_ns,
            line,
            ..ParsedRecord::default()
        });
        let mut records: Vec<ParsedRecord> = records.collect();
        let times = times(&records);
        records.sort_by_key(|record| record.time_ns);
        LogChunk { records, times, ..LogChunk::default() }
    }

    /// Repairs chunks, and returns each record's line and time.
    fn repair(order: &mut LogOrder, times_ns: &[u64]) -> (Vec<(u32, u64)>, Repairs) {
        let mut chunk = chunk(times_ns);
        let repairs = order.repair(&mut chunk, 10, 0);
        (chunk.records.iter().map(|record| (record.line, record.time_ns)).collect(), repairs)
    }

    #[test]
    fn records_within_the_tolerance_keep_their_times() {
        let mut order = LogOrder::default();
        assert_eq!(repair(&mut order, &[100, 95, 105, 95]).0, [(1, 95), (3, 95), (0, 100), (2, 105)]);
        assert_eq!(repair(&mut order, &[96, 110]), (vec![(0, 96), (1, 110)], Repairs::default()));
        assert_eq!(order.bound_ns(0, 10), 100);
    }

    #[test]
    fn late_records_get_the_earliest_time_that_can_still_be_delivered() {
        let mut order = LogOrder::default();
        let (records, repairs) = repair(&mut order, &[100, 80, 105, 90]);
        assert_eq!(records, [(1, 90), (3, 95), (0, 100), (2, 105)]);
        assert_eq!(repairs.changed, 2);
        assert_eq!(repairs.examples[0], RepairedRecord { line: 1, newest_ns: 100, time_ns: 80 });
        let (records, repairs) = repair(&mut order, &[50, 106]);
        assert_eq!((records, repairs.changed), (vec![(0, 95), (1, 106)], 1));
    }

    #[test]
    fn a_single_record_far_ahead_does_not_move_the_others() {
        let mut order = LogOrder::default();
        let (records, repairs) = repair(&mut order, &[100, 2 * HOUR, 101]);
        assert_eq!(records, [(0, 100), (1, 100), (2, 101)]);
        assert_eq!(repairs.changed, 1);
        assert_eq!(repairs.examples, [RepairedRecord { line: 1, newest_ns: 100, time_ns: 2 * HOUR }]);
    }

    #[test]
    fn a_step_ahead_is_confirmed_by_the_next_record() {
        let mut order = LogOrder::default();
        let times = [100, 2 * HOUR, 2 * HOUR + 1, 4 * HOUR + 1, 6 * HOUR + 1];
        let (records, repairs) = repair(&mut order, &times);
        assert_eq!(records.iter().map(|(_, time)| *time).collect::<Vec<_>>(), times);
        assert_eq!((repairs.changed, order.has_unconfirmed()), (0, true));
        assert_eq!(order.bound_ns(0, 10), 4 * HOUR + 1 - 10);
    }

    #[test]
    fn the_next_chunk_confirms_or_refutes_the_last_step() {
        for (next, refuted) in [(2 * HOUR + 1, None), (101, Some((100, 2 * HOUR)))] {
            let mut order = LogOrder::default();
            repair(&mut order, &[100, 2 * HOUR]);
            let (records, repairs) = repair(&mut order, &[next]);
            assert_eq!((records, repairs.refuted), (vec![(0, next)], refuted));
            assert!(!order.has_unconfirmed());
        }
    }
}
