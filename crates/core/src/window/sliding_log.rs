use crate::algorithm::{Algorithm, Charged};
use crate::decision::{Decision, Verdict};
use crate::quota::{AlgorithmKind, Quota};
use crate::tick::Tick;

/// At most `limit` in any span of one window: every charge is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    limit: u64,
    window: u64,
    max_debt: u64,
}

/// One key's charges, oldest first, packed small.
///
/// An entry is one varint: the gap to the entry before it, shifted by one bit
/// that says whether a cost other than 1 follows. In nanoseconds that is 4 bytes
/// an entry at hundreds a second, 5 at one a second and 6 at one a minute. There
/// are never more entries than the limit. [`SlidingLog::most_heap_bytes`] says
/// what they take at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Packed entries from `head` on. The gap of the first one is void: it stands at `oldest`.
    bytes: Vec<u8>,
    head: usize,
    oldest: u64,
    newest: u64,
    used: u64,
    /// What is owed beyond the entries. As soon as one of them leaves, it becomes an entry of that moment.
    debt: u64,
}

impl SlidingLog {
    /// Compiles a sliding window log; `None` for other quotas.
    #[must_use]
    pub fn new(quota: &Quota, tick: Tick) -> Option<SlidingLog> {
        let (limit, window, max_debt) = (quota.amount(), quota.period_ns() / tick.ns(), quota.max_debt());
        (quota.kind() == AlgorithmKind::SlidingWindowLog).then_some(SlidingLog { limit, window, max_debt })
    }

    /// The most bytes of heap that one key's log takes, whatever comes when.
    ///
    /// An entry takes `k` bytes from a gap of `2^(7k - 8)` ticks on (1 from 0 on), and the gaps of all entries
    /// together are at most the window. So most bytes are taken by entries of the two sizes around the mean gap,
    /// each with the smallest gap of its size. (An entry whose cost is not 1 takes a byte more and stands for two
    /// of cost 1, which together take as much: but where these take 1 byte each.) The buffer is at most 2/15
    /// larger than what is in it, and a little: see `Log::push`.
    #[must_use]
    pub fn most_heap_bytes(&self) -> u64 {
        const FIRST_AND_SPARE: u128 = 64;
        let (limit, window) = (u128::from(self.limit), u128::from(self.window));
        let least_gap = |bytes: u32| if bytes == 1 { 0 } else { 1_u128 << (7 * bytes - 8) };
        let fits = |bytes: &u32| least_gap(*bytes) * limit <= window;
        let bytes = (1..=9).take_while(fits).last().unwrap_or(1);
        let (gap, next_gap) = (least_gap(bytes), least_gap(bytes + 1));
        let larger = (window - gap * limit).div_ceil(next_gap - gap);
        let packed = (u128::from(bytes) * limit + larger).max(2 * limit);
        u64::try_from(packed * 17 / 15 + FIRST_AND_SPARE).unwrap_or(u64::MAX)
    }

    /// Whether a charge at `at` has left the window (now - window, now].
    fn has_left(&self, at: u64, now: u64) -> bool {
        at.saturating_add(self.window) <= now
    }

    /// The charges in force at `now`, and their sum.
    fn in_force<'a>(&self, log: &'a Log, now: u64) -> (impl Iterator<Item = (u64, u64)> + 'a, u64) {
        let back = log.ahead_of(now);
        let this = *self;
        let mut used = log.used;
        for (_, cost) in log.entries().take_while(|(at, _)| this.has_left(at - back, now)) {
            used -= cost;
        }
        let entries = log.entries().map(move |(at, cost)| (at - back, cost));
        (entries.skip_while(move |(at, _)| this.has_left(*at, now)), used)
    }

    fn verdict(&self, log: &Log, now: u64, cost: u64) -> Verdict {
        let (entries, used) = self.in_force(log, now);
        let room = self.limit.saturating_sub(used);
        if cost > self.limit {
            return Verdict::Impossible;
        }
        if cost <= room {
            return Verdict::Allowed { delay: 0 };
        }
        let retry_after = self.until_freed(entries, used, used + log.debt + cost - self.limit, now);
        Verdict::Refused { retry_after: Some(retry_after) }
    }

    /// Until the entries, oldest first and `used` in all, have freed `missing`, which is no more than
    /// all of them and the debt. What is owed takes the place of what leaves, one limit later each time.
    fn until_freed(&self, entries: impl Iterator<Item = (u64, u64)>, used: u64, missing: u64, now: u64) -> u64 {
        let turns = missing.saturating_sub(used).div_ceil(self.limit);
        let mut missing = missing.saturating_sub(turns.saturating_mul(self.limit)).max(1);
        for (at, freed) in entries {
            missing = missing.saturating_sub(freed);
            if missing == 0 {
                return at.saturating_add((turns + 1).saturating_mul(self.window)) - now;
            }
        }
        unreachable!("all entries together free the whole limit, and nobody misses more than that")
    }

    /// The answer when `added` comes at `now` to what is in the log.
    fn answer(&self, verdict: Verdict, log: &Log, added: u64, now: u64) -> Decision {
        let (entries, held) = self.in_force(log, now);
        let used = held + added;
        let newest = if added > 0 { now } else { log.newest - log.ahead_of(now) };
        let missing = used.saturating_sub(self.limit) + log.debt + 1;
        let entries = entries.chain((added > 0).then_some((now, added)));
        Decision {
            verdict,
            limit: self.limit,
            remaining: self.limit.saturating_sub(used),
            next_after: if used == 0 { 0 } else { self.until_freed(entries, used, missing, now) },
            reset_after: if log.debt > 0 {
                self.untouched_at(log).saturating_sub(now)
            } else if used > 0 {
                newest.saturating_add(self.window) - now
            } else {
                0
            },
        }
    }

    /// Follows a clock that went back, forgets what has left the window, and pays what is owed with it.
    fn tidy(&self, log: &mut Log, now: u64) {
        let back = log.ahead_of(now);
        log.oldest -= back;
        log.newest -= back;
        log.debt = log.debt.min(self.max_debt);
        while log.used > 0 && self.has_left(log.oldest, now) {
            self.skip_turns(log, now);
            let left_at = log.oldest.saturating_add(self.window);
            if left_at <= now {
                log.pop();
                self.pay(log, left_at);
            }
        }
        self.pay(log, now);
    }

    /// The answer of a log that has nothing to pay.
    fn look_tidied(&self, log: &Log, now: u64, cost: u64) -> Decision {
        let verdict = if cost == 0 { Verdict::Allowed { delay: 0 } } else { self.verdict(log, now, cost) };
        let added = if matches!(verdict, Verdict::Allowed { .. }) { cost } else { 0 };
        self.answer(verdict, log, added, now)
    }

    /// Whether a log that owes has nothing to pay at `now`, and no clock to follow.
    fn is_tidy(&self, log: &Log, now: u64) -> bool {
        let is_in_time = log.newest <= now && !self.has_left(log.oldest, now);
        is_in_time && log.used >= self.limit && log.debt <= self.max_debt
    }

    /// Makes entries of what is owed, as far as there is room.
    fn pay(&self, log: &mut Log, at: u64) {
        let paid = log.debt.min(self.limit.saturating_sub(log.used));
        if paid > 0 {
            log.push(at, paid);
            log.debt -= paid;
        }
    }

    /// Where more is owed than a full log holds, and all of it has left, the same entries come again a
    /// window later: as often as that is so they move at once, which bounds the work by their number.
    fn skip_turns(&self, log: &mut Log, now: u64) {
        if log.newest.checked_add(self.window).is_none() && self.has_left(log.newest, now) {
            // At the end of time all windows have passed.
            log.debt = 0;
        }
        if log.used != self.limit || log.debt < log.used {
            return;
        }
        let turns = (now.saturating_sub(log.newest) / self.window).min(log.debt / log.used);
        log.debt -= turns * log.used;
        log.oldest += turns * self.window;
        log.newest += turns * self.window;
    }

    /// When the last of what is owed has left in its turn.
    fn paid_at(&self, log: &Log) -> u64 {
        let missing = log.used + log.debt;
        self.until_freed(log.entries(), log.used, missing, 0)
    }
}

impl Log {
    /// A log of these charges, oldest first, as (time, cost). One that costs nothing is left out.
    #[must_use]
    pub fn of(charges: impl IntoIterator<Item = (u64, u64)>) -> Log {
        let mut log = Log::default();
        for (at, cost) in charges.into_iter().filter(|(_, cost)| *cost > 0) {
            log.push(at, cost);
        }
        log
    }

    /// The same log with so much owed beyond its entries.
    #[must_use]
    pub fn owing(self, debt: u64) -> Log {
        Log { debt, ..self }
    }

    /// What is owed beyond the entries.
    #[must_use]
    pub fn debt(&self) -> u64 {
        self.debt
    }

    /// What the entries hold together, without what is owed. One that has left the window since the
    /// log was last written to is among them: a log does not know its window.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// How many bytes of heap the log holds.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The charges, oldest first, as (time, cost).
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (mut at, mut time, mut first) = (self.head, self.oldest, true);
        std::iter::from_fn(move || {
            if at >= self.bytes.len() {
                return None;
            }
            let (gap, cost, next) = self.read_entry(at);
            if !first {
                time += gap;
            }
            (at, first) = (next, false);
            Some((time, cost))
        })
    }

    /// By how much all entries have to move so that none lies ahead of a clock that went back.
    fn ahead_of(&self, now: u64) -> u64 {
        if self.used == 0 { 0 } else { self.newest.saturating_sub(now).min(self.oldest) }
    }

    fn push(&mut self, now: u64, cost: u64) {
        if self.used == 0 {
            let bytes = std::mem::take(&mut self.bytes);
            *self = Log { bytes, oldest: now, newest: now, debt: self.debt, ..Log::default() };
            self.bytes.clear();
        }
        // Room at the front is used up before the buffer grows, once it is worth moving the
        // rest for. The buffer grows by a sixteenth: doubling would cost as much as the entries.
        if self.bytes.len() + 16 > self.bytes.capacity() {
            let grain = self.bytes.capacity() / 16;
            if self.head > grain {
                self.bytes.drain(..self.head);
                self.head = 0;
            } else {
                self.bytes.reserve_exact(grain + 32);
            }
        }
        let at = now.max(self.newest);
        write_varint(&mut self.bytes, u128::from(at - self.newest) << 1 | u128::from(cost != 1));
        if cost != 1 {
            write_varint(&mut self.bytes, u128::from(cost));
        }
        self.newest = at;
        self.used += cost;
    }

    fn pop(&mut self) {
        let (_, cost, next) = self.read_entry(self.head);
        self.used -= cost;
        self.head = next;
        if next < self.bytes.len() {
            self.oldest += self.read_entry(next).0;
        } else {
            // Empty, it remembers no time either: a clock that goes back would find it ahead.
            self.bytes.clear();
            (self.head, self.oldest, self.newest) = (0, 0, 0);
        }
    }

    /// Takes `amount` off the entries made at `at`.
    fn take_off(&mut self, at: u64, mut amount: u64) {
        let entries: Vec<_> = self.entries().collect();
        let mut rebuilt = Log::default();
        for (time, cost) in entries {
            let taken = if time == at { cost.min(amount) } else { 0 };
            amount -= taken;
            if cost > taken {
                rebuilt.push(time, cost - taken);
            }
        }
        *self = rebuilt.owing(self.debt);
    }

    /// Takes `amount` off, the newest entries first.
    fn take_newest(&mut self, amount: u64) {
        let mut left = self.used.saturating_sub(amount);
        if left == self.used {
            return;
        }
        let kept = self.entries().map_while(|(at, cost)| {
            let kept = cost.min(left);
            left -= kept;
            (kept > 0).then_some((at, kept))
        });
        *self = Log::of(kept).owing(self.debt);
    }

    /// The gap, the cost and where the next entry begins.
    fn read_entry(&self, at: usize) -> (u64, u64, usize) {
        let (head, at) = read_varint(&self.bytes, at);
        let gap = (head >> 1) as u64;
        if head & 1 == 0 {
            return (gap, 1, at);
        }
        let (cost, at) = read_varint(&self.bytes, at);
        (gap, cost as u64, at)
    }
}

impl Algorithm for SlidingLog {
    type State = Log;

    fn look(&self, log: &Log, now: u64, cost: u64) -> Decision {
        if log.debt > 0 && !self.is_tidy(log, now) {
            // What has been paid meanwhile is seen on a copy: it is rare that anything is owed.
            let mut paid = log.clone();
            self.tidy(&mut paid, now);
            return self.look_tidied(&paid, now, cost);
        }
        self.look_tidied(log, now, cost)
    }

    fn check(&self, log: &mut Log, now: u64, cost: u64) -> Decision {
        if cost == 0 {
            return self.look(log, now, 0);
        }
        self.tidy(log, now);
        let decision = self.look(log, now, cost);
        if decision.is_allowed() {
            log.push(now, cost);
        }
        decision
    }

    fn force(&self, log: &mut Log, now: u64, cost: u64) -> u64 {
        self.tidy(log, now);
        let fits = cost.min(self.limit.saturating_sub(log.used));
        if fits > 0 {
            log.push(now, fits);
        }
        cost - fits
    }

    fn owe(&self, log: &mut Log, now: u64, cost: u64) -> u64 {
        self.tidy(log, now);
        let fits = cost.min((self.limit + self.max_debt).saturating_sub(log.used + log.debt));
        log.debt += fits;
        self.pay(log, now);
        cost - fits
    }

    fn give_back(&self, log: &mut Log, now: u64, charged: &Charged, amount: u64) {
        self.tidy(log, now);
        log.take_off(charged.mark, amount.min(charged.cost));
        // What is given back is room, which belongs first to what is owed.
        self.pay(log, now);
    }

    fn credit(&self, log: &mut Log, now: u64, amount: u64) {
        self.tidy(log, now);
        // The newest is what is owed.
        let forgiven = log.debt.min(amount);
        log.debt -= forgiven;
        log.take_newest(amount - forgiven);
    }

    fn charged(&self, log: &Log, now: u64, cost: u64) -> Charged {
        Charged { at: now, cost, mark: log.newest, part: 0 }
    }

    fn untouched_at(&self, log: &Log) -> u64 {
        match (log.used, log.debt) {
            (0, _) => 0,
            (_, 0) => log.newest.saturating_add(self.window),
            _ => self.paid_at(log),
        }
    }

    fn refresh(&self, log: &mut Log, now: u64) {
        self.tidy(log, now);
    }

    fn carried(&self, used: u64, now: u64) -> Log {
        Log::of([(now, used.min(self.limit))])
    }
}

fn write_varint(bytes: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn read_varint(bytes: &[u8], mut at: usize) -> (u128, usize) {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[at];
        value |= u128::from(byte & 0x7f) << shift;
        at += 1;
        shift += 7;
        if byte & 0x80 == 0 {
            return (value, at);
        }
    }
}
