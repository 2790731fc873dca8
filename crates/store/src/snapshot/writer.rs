use std::io::{self, Write};

use tollgate_core::{CounterState, Leases, LogState, WindowState};

use super::encoder::Encoder;
use super::header::Header;
use super::time_shift::Moment;
use super::{SnapshotSummary, quota_record, records};
use crate::limit::key::HashSecret;
use crate::locked_table::caller_states::{CallerQuotaState, CallerState};
use crate::memory::tables::{EntryWriter, Tables};
use crate::table::cell::{BucketEntry, TAG_BITS};
use crate::table::quotas::Quotas;

/// Writes all keys that are live at `store_ns`, which is `wall_ns` by the time of day.
pub(crate) fn write(
    tables: &Tables,
    secret: &HashSecret,
    (store_ns, wall_ns): (u64, u64),
    to: &mut dyn Write,
) -> io::Result<SnapshotSummary> {
    let mut encoder = Encoder::new(to);
    Header { secret: secret.clone(), begun: Moment { store_ns, wall_ns } }.write(&mut encoder);
    let mut writer =
        RecordWriter { encoder, quotas: &tables.quotas, named: vec![false; 1 << TAG_BITS], records: 0, keys: 0 };
    tables.quotas.with_fixed_tags(|| tables.walk(store_ns, &mut writer))?;
    let RecordWriter { mut encoder, records, keys, .. } = writer;
    let len = encoder.len();
    encoder.byte(records::END);
    encoder.number(records);
    encoder.number(len);
    Ok(SnapshotSummary { keys, bytes: encoder.end()? })
}

struct RecordWriter<'w> {
    encoder: Encoder<'w>,
    quotas: &'w Quotas,
    /// The tags whose quotas were written already.
    named: Vec<bool>,
    records: u64,
    keys: u64,
}

impl RecordWriter<'_> {
    fn begin(&mut self, kind: u8, hash: u64) {
        self.encoder.byte(kind);
        self.encoder.word(hash);
        self.records += 1;
        self.keys += 1;
    }

    /// Begins the record of a state with an expiry time.
    fn begin_until(&mut self, kind: u8, hash: u64, free_at: u64) {
        self.begin(kind, hash);
        self.encoder.word(free_at);
    }

    /// Writes the debt, in the records that have one.
    fn debt(&mut self, debt: u64) {
        if debt > 0 {
            self.encoder.number(debt);
        }
    }
}

impl EntryWriter for RecordWriter<'_> {
    fn bucket(&mut self, hash: u64, entry: BucketEntry) {
        let tag = usize::from(entry.quota_tag());
        if !self.named[tag] {
            let Some(quota) = self.quotas.quota(entry.quota_tag()) else { return };
            self.encoder.byte(records::QUOTA);
            self.encoder.number(tag as u64);
            quota_record::write(&mut self.encoder, &quota);
            self.records += 1;
            self.named[tag] = true;
        }
        self.begin(records::BUCKET, hash);
        self.encoder.number(tag as u64);
        self.encoder.word(entry.tat);
        self.encoder.number(u64::from(entry.state().part));
    }

    fn window(&mut self, hash: u64, free_at: u64, state: &WindowState) {
        self.begin_until(if state.debt > 0 { records::WINDOW_WITH_DEBT } else { records::WINDOW }, hash, free_at);
        self.encoder.word(state.start);
        self.encoder.number(state.window);
        self.encoder.number(state.used);
        self.debt(state.debt);
    }

    fn counter(&mut self, hash: u64, free_at: u64, state: &CounterState) {
        self.begin_until(if state.debt > 0 { records::COUNTER_WITH_DEBT } else { records::COUNTER }, hash, free_at);
        self.encoder.word(state.start);
        self.encoder.number(state.window);
        self.encoder.number(state.previous);
        self.encoder.number(state.current);
        self.debt(state.debt);
    }

    fn log(&mut self, hash: u64, free_at: u64, log: &LogState) {
        self.begin_until(if log.debt() > 0 { records::LOG_WITH_DEBT } else { records::LOG }, hash, free_at);
        self.debt(log.debt());
        let mut before = 0;
        for (at, cost) in log.entries() {
            // A cost is never 0, and 0 ends the list.
            self.encoder.number(cost);
            self.encoder.number(at - before);
            before = at;
        }
        self.encoder.number(0);
    }

    fn leases(&mut self, hash: u64, free_at: u64, leases: &Leases) {
        self.begin_until(records::LEASES, hash, free_at);
        self.encoder.word(leases.last_id());
        for (id, until, permits) in leases.holders() {
            // A permit count of 0 would end the list.
            self.encoder.number(permits.max(1));
            self.encoder.word(id);
            self.encoder.word(until);
        }
        self.encoder.number(0);
    }

    fn caller(&mut self, hash: u64, free_at: u64, known: &CallerState) {
        match known.quota_state {
            CallerQuotaState::Nothing => {}
            CallerQuotaState::Bucket { quota, tat, part } => {
                self.begin(records::CALLER_BUCKET, hash);
                self.encoder.number(quota.amount);
                self.encoder.number(quota.period_ns);
                self.encoder.number(quota.burst);
                self.encoder.word(tat);
                self.encoder.number(u64::from(part));
            }
            CallerQuotaState::Window(state) => {
                self.begin_until(records::CALLER_WINDOW, hash, free_at);
                self.encoder.word(state.start);
                self.encoder.number(state.window);
                self.encoder.number(state.used);
                self.encoder.number(state.debt);
            }
        }
    }

    fn callers_are_separate(&mut self) {
        self.encoder.byte(records::SEPARATE_CALLERS);
        self.records += 1;
    }

    fn pause(&mut self) -> io::Result<()> {
        self.encoder.pause()
    }
}
