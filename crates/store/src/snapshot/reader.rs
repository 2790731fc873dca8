use std::collections::HashMap;
use std::io::Read;

use tollgate_core::{Bucket, BucketState, CounterState, Leases, LogState, MAX_AMOUNT, MAX_SPAN_NS, Tick, WindowState};

use super::decoder::Decoder;
use super::header::Header;
use super::time_shift::{Moment, TimeShift};
use super::{RestoreError, RestoreSummary, quota_record, records};
use crate::limit::TaggedBucket;
use crate::limit::caller_quota::PlainQuota;
use crate::limit::key::HashSecret;
use crate::locked_table::caller_states::{CallerQuotaState, CallerState};
use crate::locked_table::{LockedTable, StoredState};
use crate::memory::tables::Tables;
use crate::table::BucketKey;
use crate::table::full::TableFull;
use crate::table::quotas::TagUse;

/// The largest number of quotas from a snapshot. A store distinguishes 4,096 bucket quotas; the rest is for the
/// policies to come.
const MAX_QUOTAS: usize = 3_000;

const ODD_WINDOW: &str = "a window in it has no length, or too much";
const ODD_COUNT: &str = "a count in it is too large";
const NO_SUCH_QUOTA: RestoreError = RestoreError::Damaged("an entry in it has no quota");

/// A reader of the records of a snapshot, which restores them into tables.
pub(crate) struct SnapshotReader<'r> {
    decoder: Decoder<'r>,
    begun: Moment,
}

/// Reads the header, with the secret that the new store must use.
pub(crate) fn open(from: &mut dyn Read) -> Result<(HashSecret, SnapshotReader<'_>), RestoreError> {
    let mut decoder = Decoder::new(from);
    let header = Header::read(&mut decoder)?;
    Ok((header.secret, SnapshotReader { decoder, begun: header.begun }))
}

impl SnapshotReader<'_> {
    /// Fills empty tables. On an error they contain a part of the snapshot, and must not be used.
    pub(crate) fn fill(self, tables: &Tables, (store_ns, wall_ns): (u64, u64)) -> Result<RestoreSummary, RestoreError> {
        let shift = TimeShift::between(self.begun, Moment { store_ns, wall_ns });
        let restored = RestoreSummary { written_at_ns: self.begun.wall_ns, ..RestoreSummary::default() };
        let mut filling = RecordReader {
            decoder: self.decoder,
            tables,
            shift,
            now: store_ns,
            quotas: HashMap::new(),
            has_separate_callers: false,
            restored,
        };
        let mut records = 0;
        loop {
            let begun_at = filling.decoder.len();
            let kind = filling.decoder.byte()?;
            if kind == records::END {
                return filling.end(records, begun_at);
            }
            filling.record(kind)?;
            records += 1;
        }
    }
}

struct RecordReader<'r, 't> {
    decoder: Decoder<'r>,
    tables: &'t Tables,
    shift: TimeShift,
    now: u64,
    /// The quotas read so far, by their tags in the snapshot; `None` for a quota for which the store has no free tag.
    quotas: HashMap<u64, Option<(TaggedBucket, TagUse)>>,
    /// Whether the keys under callers' limits have separate records.
    has_separate_callers: bool,
    restored: RestoreSummary,
}

impl RecordReader<'_, '_> {
    fn record(&mut self, kind: u8) -> Result<(), RestoreError> {
        match kind {
            records::QUOTA => self.quota(),
            records::BUCKET => self.bucket(),
            records::WINDOW | records::WINDOW_WITH_DEBT => self.window(kind == records::WINDOW_WITH_DEBT),
            records::COUNTER | records::COUNTER_WITH_DEBT => self.counter(kind == records::COUNTER_WITH_DEBT),
            records::LOG | records::LOG_WITH_DEBT => self.log(kind == records::LOG_WITH_DEBT),
            records::LEASES => self.leases(),
            records::SEPARATE_CALLERS => {
                self.has_separate_callers = true;
                Ok(())
            }
            records::CALLER_BUCKET => self.caller_bucket(),
            records::CALLER_WINDOW => self.caller_window(),
            _ => Err(RestoreError::Damaged("a record in it is none")),
        }
    }

    fn end(mut self, records: u64, len: u64) -> Result<RestoreSummary, RestoreError> {
        if self.decoder.number()? != records || self.decoder.number()? != len {
            return Err(RestoreError::Damaged("a part of it is missing"));
        }
        self.decoder.end()?;
        if !self.has_separate_callers {
            self.tables.note_callers_in_policy_tables();
        }
        self.restored.quotas = self.quotas.values().flatten().count();
        Ok(self.restored)
    }

    fn quota(&mut self) -> Result<(), RestoreError> {
        let tag = self.decoder.number()?;
        let quota = quota_record::read(&mut self.decoder)?;
        let has_capacity = self.quotas.len() < MAX_QUOTAS;
        let bucket = Bucket::new(&quota, Tick::Nanosecond).filter(|_| has_capacity);
        let tagged = bucket.and_then(|bucket| self.tables.tag_bucket(bucket, &quota, self.now).ok());
        self.quotas.insert(tag, tagged);
        Ok(())
    }

    fn bucket(&mut self) -> Result<(), RestoreError> {
        let (hash, tag) = (self.decoder.word()?, self.decoder.number()?);
        let tat = self.shift.apply(self.decoder.word()?);
        let part = self.decoder.number()?;
        let tagged = self.quotas.get(&tag).ok_or(NO_SUCH_QUOTA)?;
        let put = tagged.as_ref().map_or(Ok(Err(TableFull)), |(quota, _)| {
            let state = BucketState { tat, part: fraction(part, &quota.bucket)? };
            if tat < self.now {
                return Ok(Ok(false));
            }
            Ok(self.tables.buckets().put(BucketKey { hash, quota }, state, self.now).map(|()| true))
        })?;
        self.note(put);
        Ok(())
    }

    /// Windows follow the calendar: their times are times of day, and are not shifted.
    fn window(&mut self, has_debt: bool) -> Result<(), RestoreError> {
        let (hash, free_at, start) = (self.decoder.word()?, self.decoder.word()?, self.decoder.word()?);
        let (window, used, debt) = (self.window_length()?, self.count()?, self.debt(has_debt)?);
        let state = WindowState { start, window, used, debt };
        self.put(self.tables.windows(), hash, free_at, state);
        Ok(())
    }

    fn counter(&mut self, has_debt: bool) -> Result<(), RestoreError> {
        let (hash, free_at, start) = (self.decoder.word()?, self.decoder.word()?, self.decoder.word()?);
        let window = self.window_length()?;
        let (previous, current, debt) = (self.count()?, self.count()?, self.debt(has_debt)?);
        let state = CounterState { start, window, previous, current, debt };
        self.put(self.tables.counters(), hash, free_at, state);
        Ok(())
    }

    fn log(&mut self, has_debt: bool) -> Result<(), RestoreError> {
        let (hash, free_at) = (self.decoder.word()?, self.decoder.word()?);
        let debt = self.debt(has_debt)?;
        let free_at = self.shift.apply(free_at);
        let (mut charges, mut at, mut used) = (Vec::new(), 0_u64, 0);
        loop {
            let cost = self.decoder.number_to(MAX_AMOUNT - used, ODD_COUNT)?;
            if cost == 0 {
                break;
            }
            used += cost;
            at = at.checked_add(self.decoder.number()?).ok_or(RestoreError::Damaged("a time in it is none"))?;
            charges.push((self.shift.apply(at), cost));
        }
        self.put(self.tables.logs(), hash, free_at, LogState::of(charges).with_debt(debt));
        Ok(())
    }

    /// Permits with a lease expire with it. One without a lease has no holder left that could release it.
    fn leases(&mut self) -> Result<(), RestoreError> {
        let (hash, _, last_id) = (self.decoder.word()?, self.decoder.word()?, self.decoder.word()?);
        let (mut holders, mut held, mut free_at) = (Vec::new(), 0, 0);
        loop {
            let permits = self.decoder.number_to(MAX_AMOUNT - held, ODD_COUNT)?;
            if permits == 0 {
                break;
            }
            held += permits;
            let (id, until) = (self.decoder.word()?, self.decoder.word()?);
            if until < u64::MAX {
                let until = self.shift.apply(until);
                free_at = until.max(free_at);
                holders.push((id, until, permits));
            }
        }
        self.put(self.tables.leases(), hash, free_at, Leases::of(holders, last_id));
        Ok(())
    }

    fn caller_bucket(&mut self) -> Result<(), RestoreError> {
        let hash = self.decoder.word()?;
        let (amount, period_ns, burst) = (self.decoder.number()?, self.decoder.number()?, self.decoder.number()?);
        let quota = PlainQuota { amount, period_ns, burst };
        let bucket = quota.bucket().ok_or(RestoreError::Damaged("a quota in it cannot be"))?;
        let tat = self.shift.apply(self.decoder.word()?);
        let state = BucketState { tat, part: fraction(self.decoder.number()?, &bucket)? };
        self.put_caller(hash, Bucket::full_at(state), CallerQuotaState::bucket(quota, state));
        Ok(())
    }

    fn caller_window(&mut self) -> Result<(), RestoreError> {
        let (hash, free_at, start) = (self.decoder.word()?, self.decoder.word()?, self.decoder.word()?);
        let (window, used, debt) = (self.window_length()?, self.count()?, self.count()?);
        self.put_caller(hash, free_at, CallerQuotaState::Window(WindowState { start, window, used, debt }));
        Ok(())
    }

    /// The time of the last use is unknown: these keys count as older than all keys used from now on.
    fn put_caller(&mut self, hash: u64, free_at: u64, quota_state: CallerQuotaState) {
        self.put(self.tables.callers(), hash, free_at, CallerState { last_used_at: 0, quota_state });
    }

    fn window_length(&mut self) -> Result<u64, RestoreError> {
        let length = self.decoder.number_to(MAX_SPAN_NS, ODD_WINDOW)?;
        if length > 0 { Ok(length) } else { Err(RestoreError::Damaged(ODD_WINDOW)) }
    }

    fn count(&mut self) -> Result<u64, RestoreError> {
        self.decoder.number_to(MAX_AMOUNT, ODD_COUNT)
    }

    fn debt(&mut self, has_debt: bool) -> Result<u64, RestoreError> {
        if has_debt { self.count() } else { Ok(0) }
    }

    /// Restores a state unless it has expired.
    fn put<S: Default + StoredState>(&mut self, table: &LockedTable<S>, hash: u64, free_at: u64, state: S) {
        let is_live = free_at > self.now;
        self.note(if is_live { table.put(hash, free_at, state, self.now).map(|()| true) } else { Ok(false) });
    }

    fn note(&mut self, put: Result<bool, TableFull>) {
        match put {
            Ok(true) => self.restored.keys += 1,
            Ok(false) => self.restored.expired += 1,
            Err(TableFull) => self.restored.lost += 1,
        }
    }
}

/// Checks that a fraction of a tick is valid under the bucket that wrote it.
fn fraction(part: u64, bucket: &Bucket) -> Result<u32, RestoreError> {
    let part = u32::try_from(part).ok().filter(|part| *part < bucket.shape().denominator);
    part.ok_or(RestoreError::Damaged("a fraction in it is none"))
}
