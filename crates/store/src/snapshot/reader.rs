use std::collections::HashMap;
use std::io::Read;

use tollgate_core::{Bucket, BucketState, CounterState, Leases, Log, MAX_AMOUNT, MAX_SPAN_NS, Tick, WindowState};

use super::decoder::Decoder;
use super::header::Header;
use super::time_shift::{Moment, TimeShift};
use super::{RestoreError, Restored, quota_record, records};
use crate::limit::BucketRule;
use crate::limit::caller_rule::PlainQuota;
use crate::limit::key::HashSecret;
use crate::locked_table::caller_states::{CallerState, Kept};
use crate::locked_table::{Held, LockedTable};
use crate::memory::tables::Tables;
use crate::table::Place;
use crate::table::full::Full;
use crate::table::quotas::TagUse;

/// A store tells 4,096 bucket quotas apart. So many may come from the past, as long as keys live that were counted
/// under them, and the rest is for what the policies to come will say.
const MOST_QUOTAS: usize = 3_000;

const ODD_WINDOW: &str = "a window in it has no length, or too much";
const ODD_COUNT: &str = "a count in it is too large";
const NO_SUCH_QUOTA: RestoreError = RestoreError::Damaged("an entry in it has no quota");

/// The records of a store that was written down, ready to be put into tables.
pub(crate) struct Filler<'r> {
    decoder: Decoder<'r>,
    begun: Moment,
}

/// Reads what stands in front: the secret that the new store must hash with.
pub(crate) fn open(from: &mut dyn Read) -> Result<(HashSecret, Filler<'_>), RestoreError> {
    let mut decoder = Decoder::new(from);
    let header = Header::read(&mut decoder)?;
    Ok((header.secret, Filler { decoder, begun: header.begun }))
}

impl Filler<'_> {
    /// Fills empty tables. Where this fails they hold a part of it, and are of no use.
    pub(crate) fn fill(self, tables: &Tables, (store_ns, wall_ns): (u64, u64)) -> Result<Restored, RestoreError> {
        let shift = TimeShift::between(self.begun, Moment { store_ns, wall_ns });
        let restored = Restored { written_at_ns: self.begun.wall_ns, ..Restored::default() };
        let mut filling = Filling {
            decoder: self.decoder,
            tables,
            shift,
            now: store_ns,
            rules: HashMap::new(),
            has_callers_apart: false,
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

struct Filling<'r, 't> {
    decoder: Decoder<'r>,
    tables: &'t Tables,
    shift: TimeShift,
    now: u64,
    /// The quotas so far by the tags they had; `None` for one that there is no room for.
    rules: HashMap<u64, Option<(BucketRule, TagUse)>>,
    /// Whether the keys of callers stand in records of their own.
    has_callers_apart: bool,
    restored: Restored,
}

impl Filling<'_, '_> {
    fn record(&mut self, kind: u8) -> Result<(), RestoreError> {
        match kind {
            records::QUOTA => self.quota(),
            records::BUCKET => self.bucket(),
            records::WINDOW | records::WINDOW_OWING => self.window(kind == records::WINDOW_OWING),
            records::COUNTER | records::COUNTER_OWING => self.counter(kind == records::COUNTER_OWING),
            records::LOG | records::LOG_OWING => self.log(kind == records::LOG_OWING),
            records::LEASES => self.leases(),
            records::CALLERS_APART => {
                self.has_callers_apart = true;
                Ok(())
            }
            records::CALLER_BUCKET => self.caller_bucket(),
            records::CALLER_WINDOW => self.caller_window(),
            _ => Err(RestoreError::Damaged("a record in it is none")),
        }
    }

    fn end(mut self, records: u64, len: u64) -> Result<Restored, RestoreError> {
        if self.decoder.number()? != records || self.decoder.number()? != len {
            return Err(RestoreError::Damaged("a part of it is missing"));
        }
        self.decoder.end()?;
        if !self.has_callers_apart {
            self.tables.note_callers_among_others();
        }
        self.restored.quotas = self.rules.values().flatten().count();
        Ok(self.restored)
    }

    fn quota(&mut self) -> Result<(), RestoreError> {
        let tag = self.decoder.number()?;
        let quota = quota_record::read(&mut self.decoder)?;
        let room = self.rules.len() < MOST_QUOTAS;
        let bucket = Bucket::new(&quota, Tick::Nanosecond).filter(|_| room);
        let rule = bucket.and_then(|bucket| self.tables.tagged(bucket, &quota, self.now).ok());
        self.rules.insert(tag, rule);
        Ok(())
    }

    fn bucket(&mut self) -> Result<(), RestoreError> {
        let (hash, tag) = (self.decoder.word()?, self.decoder.number()?);
        let tat = self.shift.apply(self.decoder.word()?);
        let part = self.decoder.number()?;
        let rule = self.rules.get(&tag).ok_or(NO_SUCH_QUOTA)?;
        let put = rule.as_ref().map_or(Ok(Err(Full)), |(rule, _)| {
            let state = BucketState { tat, part: fraction(part, &rule.bucket)? };
            if tat < self.now {
                return Ok(Ok(false));
            }
            Ok(self.tables.buckets().put(Place { hash, rule }, state, self.now).map(|()| true))
        })?;
        self.note(put);
        Ok(())
    }

    /// Windows follow the calendar: theirs are the times of day that they were, whatever clock told them.
    fn window(&mut self, is_owing: bool) -> Result<(), RestoreError> {
        let (hash, free_at, start) = (self.decoder.word()?, self.decoder.word()?, self.decoder.word()?);
        let (window, used, debt) = (self.window_length()?, self.count()?, self.debt(is_owing)?);
        let state = WindowState { start, window, used, debt };
        self.put(self.tables.windows(), hash, free_at, state);
        Ok(())
    }

    fn counter(&mut self, is_owing: bool) -> Result<(), RestoreError> {
        let (hash, free_at, start) = (self.decoder.word()?, self.decoder.word()?, self.decoder.word()?);
        let window = self.window_length()?;
        let (previous, current, debt) = (self.count()?, self.count()?, self.debt(is_owing)?);
        let state = CounterState { start, window, previous, current, debt };
        self.put(self.tables.counters(), hash, free_at, state);
        Ok(())
    }

    fn log(&mut self, is_owing: bool) -> Result<(), RestoreError> {
        let (hash, free_at) = (self.decoder.word()?, self.decoder.word()?);
        let debt = self.debt(is_owing)?;
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
        self.put(self.tables.logs(), hash, free_at, Log::of(charges).owing(debt));
        Ok(())
    }

    /// Permits with a lease run out with it. One without has nobody left who could give it back.
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
        self.put_caller(hash, Bucket::full_at(state), Kept::bucket(quota, state));
        Ok(())
    }

    fn caller_window(&mut self) -> Result<(), RestoreError> {
        let (hash, free_at, start) = (self.decoder.word()?, self.decoder.word()?, self.decoder.word()?);
        let (window, used, debt) = (self.window_length()?, self.count()?, self.count()?);
        self.put_caller(hash, free_at, Kept::Window(WindowState { start, window, used, debt }));
        Ok(())
    }

    /// When it was last asked about is not known: before all that are asked about from now on.
    fn put_caller(&mut self, hash: u64, free_at: u64, kept: Kept) {
        self.put(self.tables.callers(), hash, free_at, CallerState { asked_at: 0, kept });
    }

    fn window_length(&mut self) -> Result<u64, RestoreError> {
        let length = self.decoder.number_to(MAX_SPAN_NS, ODD_WINDOW)?;
        if length > 0 { Ok(length) } else { Err(RestoreError::Damaged(ODD_WINDOW)) }
    }

    fn count(&mut self) -> Result<u64, RestoreError> {
        self.decoder.number_to(MAX_AMOUNT, ODD_COUNT)
    }

    fn debt(&mut self, is_owing: bool) -> Result<u64, RestoreError> {
        if is_owing { self.count() } else { Ok(0) }
    }

    /// Puts what is still in force.
    fn put<S: Default + Held>(&mut self, table: &LockedTable<S>, hash: u64, free_at: u64, state: S) {
        let is_in_force = free_at > self.now;
        self.note(if is_in_force { table.put(hash, free_at, state, self.now).map(|()| true) } else { Ok(false) });
    }

    fn note(&mut self, put: Result<bool, Full>) {
        match put {
            Ok(true) => self.restored.keys += 1,
            Ok(false) => self.restored.passed += 1,
            Err(Full) => self.restored.lost += 1,
        }
    }
}

/// A fraction of a tick under the bucket that wrote it.
fn fraction(part: u64, bucket: &Bucket) -> Result<u32, RestoreError> {
    let part = u32::try_from(part).ok().filter(|part| *part < bucket.shape().denominator);
    part.ok_or(RestoreError::Damaged("a fraction in it is none"))
}
