//! Chunks that wait for delivery, and their merge by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::LogRecord;
use crate::log::chunk::LogChunk;

/// The records of a batch: few enough to stay in the second-level cache, many enough to make the call cheap.
const BATCH_RECORDS_MAX: usize = 1_024;

/// Chunks that wait for delivery.
#[derive(Default)]
pub(super) struct ChunkRuns {
    slots: Vec<Option<LogChunk>>,
    heads: BinaryHeap<Reverse<RunHead>>,
    /// The memory of all chunks.
    bytes: usize,
    /// Delivered chunks, for their memory.
    spare: Vec<LogChunk>,
    picks: Vec<Pick>,
}

/// The next record of a chunk. Heads are ordered by time; equal times by the order of logs and of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RunHead {
    time_ns: u64,
    log: usize,
    number: u64,
    slot: usize,
    record: usize,
}

/// A record of a batch.
#[derive(Clone, Copy, Debug)]
struct Pick {
    slot: usize,
    record: usize,
}

/// What was delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeliveredSpan {
    /// The times of the first and the last record.
    pub(super) first_last_ns: Option<(u64, u64)>,
}

impl ChunkRuns {
    /// The delivered chunks whose memory is kept.
    const SPARE_MAX: usize = 16;

    /// Adds a chunk: number `number` of a log. Returns its slot.
    pub(super) fn insert(&mut self, log: usize, number: u64, chunk: LogChunk) -> usize {
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        match chunk.records.first() {
            None => self.recycle(chunk),
            Some(first) => {
                self.heads.push(Reverse(RunHead { time_ns: first.time_ns, log, number, slot, record: 0 }));
                self.bytes += chunk.bytes();
                self.slots[slot] = Some(chunk);
            }
        }
        slot
    }

    /// Whether all records that wait are of this log.
    pub(super) fn contain_only(&self, log: usize) -> bool {
        self.heads.iter().all(|Reverse(head)| head.log == log)
    }

    /// Returns the memory of all chunks.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns a chunk that is no longer needed.
    pub(super) fn spare(&mut self) -> LogChunk {
        self.spare.pop().unwrap_or_default()
    }

    /// Gives the last record of a chunk another time, which is not before that of any other record of the chunk.
    pub(super) fn change_last_time(&mut self, slot: usize, time_ns: u64) {
        let Some(chunk) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        let last = chunk.records.len() - 1;
        chunk.records[last].time_ns = time_ns;
        let heads = std::mem::take(&mut self.heads).into_iter().map(|Reverse(head)| {
            let is_changed = head.slot == slot && head.record == last;
            Reverse(RunHead { time_ns: if is_changed { time_ns } else { head.time_ns }, ..head })
        });
        self.heads = heads.collect();
    }

    /// Delivers all records before a time, in order.
    pub(super) fn deliver(&mut self, before_ns: u64, on_batch: &mut dyn FnMut(&[LogRecord<'_>])) -> DeliveredSpan {
        let mut span = DeliveredSpan::default();
        loop {
            let finished = self.pick(before_ns);
            let (Some(first), Some(last)) = (self.picks.first(), self.picks.last()) else { return span };
            let (first_ns, last_ns) = (self.time_ns(*first), self.time_ns(*last));
            span.first_last_ns = Some((span.first_last_ns.map_or(first_ns, |(earliest_ns, _)| earliest_ns), last_ns));
            self.call(on_batch);
            for slot in finished {
                self.free(slot);
            }
        }
    }

    /// Picks the records of the next batch, and returns the slots of the chunks that end with it.
    fn pick(&mut self, before_ns: u64) -> Vec<usize> {
        let mut finished = Vec::new();
        self.picks.clear();
        while let Some(Reverse(head)) = self.heads.peek().copied()
            && head.time_ns < before_ns
            && self.picks.len() < BATCH_RECORDS_MAX
        {
            self.heads.pop();
            let end_ns = self.heads.peek().map_or(before_ns, |Reverse(next)| end_ns(&head, next).min(before_ns));
            let Some(chunk) = &self.slots[head.slot] else { continue };
            let rest = &chunk.records[head.record..];
            let count =
                rest.iter().take(BATCH_RECORDS_MAX - self.picks.len()).take_while(|record| record.time_ns < end_ns);
            let next = head.record + count.count();
            self.picks.extend((head.record..next).map(|record| Pick { slot: head.slot, record }));
            match chunk.records.get(next) {
                Some(record) => self.heads.push(Reverse(RunHead { time_ns: record.time_ns, record: next, ..head })),
                None => finished.push(head.slot),
            }
        }
        finished
    }

    fn call(&self, on_batch: &mut dyn FnMut(&[LogRecord<'_>])) {
        let chunks = || self.picks.iter().filter_map(|pick| Some((self.slots[pick.slot].as_ref()?, pick.record)));
        let count = chunks().map(|(chunk, record)| chunk.records[record].fields as usize).sum();
        let mut fields: Vec<(&str, &str)> = Vec::with_capacity(count);
        if count > 0 {
            fields.extend(chunks().flat_map(|(chunk, record)| chunk.fields_of(record)));
        }
        let mut rest = fields.as_slice();
        let mut records: Vec<LogRecord<'_>> = Vec::with_capacity(self.picks.len());
        records.extend(chunks().map(|(chunk, record)| {
            let (own, after) = rest.split_at(chunk.records[record].fields as usize);
            rest = after;
            chunk.record(record, own)
        }));
        on_batch(&records);
    }

    fn time_ns(&self, pick: Pick) -> u64 {
        self.slots[pick.slot].as_ref().map_or(0, |chunk| chunk.records[pick.record].time_ns)
    }

    fn free(&mut self, slot: usize) {
        if let Some(chunk) = self.slots[slot].take() {
            self.bytes -= chunk.bytes();
            self.recycle(chunk);
        }
    }

    fn recycle(&mut self, chunk: LogChunk) {
        if self.spare.len() < ChunkRuns::SPARE_MAX {
            self.spare.push(chunk);
        }
    }
}

/// Returns the time at which the chunk of `next` continues before that of `head`.
fn end_ns(head: &RunHead, next: &RunHead) -> u64 {
    let is_first_at_equal_times = (head.log, head.number) < (next.log, next.number);
    next.time_ns.saturating_add(u64::from(is_first_at_equal_times))
}
