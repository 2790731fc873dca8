use std::io::{self, Write};

use tollgate_core::{CounterState, Leases, Log, WindowState};

use super::encoder::Encoder;
use super::header::Header;
use super::time_shift::Moment;
use super::{Written, quota_record, records};
use crate::limit::key::HashSecret;
use crate::locked_table::caller_states::{CallerState, Kept};
use crate::memory::tables::{SnapshotWriter, Tables};
use crate::table::cell::{Entry, TAG_BITS};
use crate::table::quotas::Quotas;

/// Writes everything that lives at `store_ns`, which is `wall_ns` by the time of day.
pub(crate) fn write(
    tables: &Tables,
    secret: &HashSecret,
    (store_ns, wall_ns): (u64, u64),
    to: &mut dyn Write,
) -> io::Result<Written> {
    let mut encoder = Encoder::new(to);
    Header { secret: secret.clone(), begun: Moment { store_ns, wall_ns } }.write(&mut encoder);
    let mut writer = Writer { encoder, quotas: &tables.quotas, named: vec![false; 1 << TAG_BITS], records: 0, keys: 0 };
    tables.quotas.held_still(|| tables.walk(store_ns, &mut writer))?;
    let Writer { mut encoder, records, keys, .. } = writer;
    let len = encoder.len();
    encoder.byte(records::END);
    encoder.number(records);
    encoder.number(len);
    Ok(Written { keys, bytes: encoder.end()? })
}

struct Writer<'w> {
    encoder: Encoder<'w>,
    quotas: &'w Quotas,
    /// Which quotas were written already, by tag.
    named: Vec<bool>,
    records: u64,
    keys: u64,
}

impl Writer<'_> {
    fn begin(&mut self, kind: u8, hash: u64) {
        self.encoder.byte(kind);
        self.encoder.word(hash);
        self.records += 1;
        self.keys += 1;
    }

    /// A state that says when it may be forgotten.
    fn begin_until(&mut self, kind: u8, hash: u64, free_at: u64) {
        self.begin(kind, hash);
        self.encoder.word(free_at);
    }

    /// What is owed, in the records that have any.
    fn debt(&mut self, debt: u64) {
        if debt > 0 {
            self.encoder.number(debt);
        }
    }
}

impl SnapshotWriter for Writer<'_> {
    fn bucket(&mut self, hash: u64, entry: Entry) {
        let tag = usize::from(entry.tag());
        if !self.named[tag] {
            let Some(quota) = self.quotas.quota(entry.tag()) else { return };
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
        self.begin_until(if state.debt > 0 { records::WINDOW_OWING } else { records::WINDOW }, hash, free_at);
        self.encoder.word(state.start);
        self.encoder.number(state.window);
        self.encoder.number(state.used);
        self.debt(state.debt);
    }

    fn counter(&mut self, hash: u64, free_at: u64, state: &CounterState) {
        self.begin_until(if state.debt > 0 { records::COUNTER_OWING } else { records::COUNTER }, hash, free_at);
        self.encoder.word(state.start);
        self.encoder.number(state.window);
        self.encoder.number(state.previous);
        self.encoder.number(state.current);
        self.debt(state.debt);
    }

    fn log(&mut self, hash: u64, free_at: u64, log: &Log) {
        self.begin_until(if log.debt() > 0 { records::LOG_OWING } else { records::LOG }, hash, free_at);
        self.debt(log.debt());
        let mut before = 0;
        for (at, cost) in log.entries() {
            // A cost is never 0, which ends the list.
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
            // Who holds none is no holder.
            self.encoder.number(permits.max(1));
            self.encoder.word(id);
            self.encoder.word(until);
        }
        self.encoder.number(0);
    }

    fn caller(&mut self, hash: u64, free_at: u64, known: &CallerState) {
        match known.kept {
            Kept::Nothing => {}
            Kept::Bucket { quota, tat, part } => {
                self.begin(records::CALLER_BUCKET, hash);
                self.encoder.number(quota.amount);
                self.encoder.number(quota.period_ns);
                self.encoder.number(quota.burst);
                self.encoder.word(tat);
                self.encoder.number(u64::from(part));
            }
            Kept::Window(state) => {
                self.begin_until(records::CALLER_WINDOW, hash, free_at);
                self.encoder.word(state.start);
                self.encoder.number(state.window);
                self.encoder.number(state.used);
                self.encoder.number(state.debt);
            }
        }
    }

    fn callers_apart(&mut self) {
        self.encoder.byte(records::CALLERS_APART);
        self.records += 1;
    }

    fn pause(&mut self) -> io::Result<()> {
        self.encoder.pause()
    }
}
