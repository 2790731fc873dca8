use crate::algorithm::{Algorithm, Charged};
use crate::decision::{ChargeVerdict, Decision};
use crate::quota::{AlgorithmKind, Quota};
use crate::tick::Tick;

/// A sliding window log: at most `limit` in any span of one window. It stores every charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    limit: u64,
    window: u64,
    max_debt: u64,
}

/// The charges of one key, oldest first, in a compact encoding.
///
/// An entry is one varint: the gap to the entry before it, shifted by one bit that says whether a cost other than 1
/// follows. In nanoseconds an entry takes 4 bytes at hundreds of requests a second, 5 at one a second and 6 at one a
/// minute. There are never more entries than the limit. [`SlidingLog::max_heap_bytes`] returns their largest size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// The encoded entries start at `head`. The gap of the first one is not used: its time is `oldest`.
    bytes: Vec<u8>,
    head: usize,
    oldest: u64,
    newest: u64,
    used: u64,
    /// The debt beyond the entries. When an entry expires, debt takes its place as an entry of that moment.
    debt: u64,
}

impl SlidingLog {
    /// Compiles a sliding window log; `None` for other quotas.
    #[must_use]
    pub fn new(quota: &Quota, tick: Tick) -> Option<SlidingLog> {
        let (limit, window, max_debt) = (quota.amount(), quota.period_ns() / tick.ns(), quota.max_debt());
        (quota.kind() == AlgorithmKind::SlidingWindowLog).then_some(SlidingLog { limit, window, max_debt })
    }

    /// Returns the largest number of heap bytes that one key's log takes, for any traffic.
    ///
    /// An entry takes `k` bytes from a gap of `2^(7k - 8)` ticks on (1 byte from a gap of 0 on), and the gaps of all
    /// entries together are at most the window. So the most bytes are taken by entries of the two sizes around the mean
    /// gap, each with the smallest gap of its size. (An entry whose cost is not 1 takes one byte more and replaces two
    /// entries of cost 1, which together take as much, except where these take 1 byte each.) The buffer is at most 2/15
    /// larger than its content, plus a constant: see `LogState::push`.
    #[must_use]
    pub fn max_heap_bytes(&self) -> u64 {
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

    /// Returns whether a charge at `time` has left the window (now - window, now].
    fn has_expired(&self, time: u64, now: u64) -> bool {
        time.saturating_add(self.window) <= now
    }

    /// Returns the charges that count at `now`, and their sum.
    fn active_entries<'a>(&self, log: &'a LogState, now: u64) -> (impl Iterator<Item = (u64, u64)> + 'a, u64) {
        let shift = log.shift_back_at(now);
        let this = *self;
        let mut used = log.used;
        for (_, cost) in log.entries().take_while(|(time, _)| this.has_expired(time - shift, now)) {
            used -= cost;
        }
        let entries = log.entries().map(move |(time, cost)| (time - shift, cost));
        (entries.skip_while(move |(time, _)| this.has_expired(*time, now)), used)
    }

    fn verdict(&self, log: &LogState, now: u64, cost: u64) -> ChargeVerdict {
        let (entries, used) = self.active_entries(log, now);
        let capacity = self.limit.saturating_sub(used);
        if cost > self.limit {
            return ChargeVerdict::Impossible;
        }
        if cost <= capacity {
            return ChargeVerdict::Allowed { delay: 0 };
        }
        let retry_after = self.until_freed(entries, used, used + log.debt + cost - self.limit, now);
        ChargeVerdict::Refused { retry_after: Some(retry_after) }
    }

    /// Returns the time until the entries, oldest first and `used` in total, have freed `missing`, which is at most all
    /// entries plus the debt. Debt takes the place of expired entries, one limit later each time.
    fn until_freed(&self, entries: impl Iterator<Item = (u64, u64)>, used: u64, missing: u64, now: u64) -> u64 {
        let rounds = missing.saturating_sub(used).div_ceil(self.limit);
        let mut missing = missing.saturating_sub(rounds.saturating_mul(self.limit)).max(1);
        for (time, freed) in entries {
            missing = missing.saturating_sub(freed);
            if missing == 0 {
                return time.saturating_add((rounds + 1).saturating_mul(self.window)) - now;
            }
        }
        unreachable!("all entries together free the whole limit, and `missing` is at most that")
    }

    /// Returns the decision after `added` was charged at `now`.
    fn decision(&self, verdict: ChargeVerdict, log: &LogState, added: u64, now: u64) -> Decision {
        let (entries, held) = self.active_entries(log, now);
        let used = held + added;
        let newest = if added > 0 { now } else { log.newest - log.shift_back_at(now) };
        let missing = used.saturating_sub(self.limit) + log.debt + 1;
        let entries = entries.chain((added > 0).then_some((now, added)));
        Decision {
            verdict,
            limit: self.limit,
            remaining: self.limit.saturating_sub(used),
            next_after: if used == 0 { 0 } else { self.until_freed(entries, used, missing, now) },
            reset_after: if log.debt > 0 {
                self.expires_at(log).saturating_sub(now)
            } else if used > 0 {
                newest.saturating_add(self.window) - now
            } else {
                0
            },
        }
    }

    /// Brings a log up to date: corrects it if the clock went back, removes expired entries and pays debt with their
    /// capacity.
    fn bring_up_to_date(&self, log: &mut LogState, now: u64) {
        let shift = log.shift_back_at(now);
        log.oldest -= shift;
        log.newest -= shift;
        log.debt = log.debt.min(self.max_debt);
        while log.used > 0 && self.has_expired(log.oldest, now) {
            self.skip_whole_windows(log, now);
            let left_at = log.oldest.saturating_add(self.window);
            if left_at <= now {
                log.pop();
                self.pay_debt(log, left_at);
            }
        }
        self.pay_debt(log, now);
    }

    /// Decides on a log that is up to date.
    fn peek_up_to_date(&self, log: &LogState, now: u64, cost: u64) -> Decision {
        let verdict = if cost == 0 { ChargeVerdict::Allowed { delay: 0 } } else { self.verdict(log, now, cost) };
        let added = if matches!(verdict, ChargeVerdict::Allowed { .. }) { cost } else { 0 };
        self.decision(verdict, log, added, now)
    }

    /// Returns whether a log with debt is up to date at `now`: nothing to pay, and no clock step to correct.
    fn is_up_to_date(&self, log: &LogState, now: u64) -> bool {
        let is_in_time = log.newest <= now && !self.has_expired(log.oldest, now);
        is_in_time && log.used >= self.limit && log.debt <= self.max_debt
    }

    /// Turns debt into an entry at `time`, as far as there is capacity.
    fn pay_debt(&self, log: &mut LogState, time: u64) {
        let paid = log.debt.min(self.limit.saturating_sub(log.used));
        if paid > 0 {
            log.push(time, paid);
            log.debt -= paid;
        }
    }

    /// Skips whole windows in one step. If the debt is at least a full log, and all entries have expired, the same
    /// entries recur one window later, as often as that holds. This bounds the work by the number of entries.
    fn skip_whole_windows(&self, log: &mut LogState, now: u64) {
        if log.newest.checked_add(self.window).is_none() && self.has_expired(log.newest, now) {
            // Beyond the largest representable time, all windows have passed.
            log.debt = 0;
        }
        if log.used != self.limit || log.debt < log.used {
            return;
        }
        let rounds = (now.saturating_sub(log.newest) / self.window).min(log.debt / log.used);
        log.debt -= rounds * log.used;
        log.oldest += rounds * self.window;
        log.newest += rounds * self.window;
    }

    /// Returns the time when the last debt, having become an entry, has expired.
    fn debt_paid_at(&self, log: &LogState) -> u64 {
        let missing = log.used + log.debt;
        self.until_freed(log.entries(), log.used, missing, 0)
    }
}

impl LogState {
    /// Creates a log from charges, oldest first, as (time, cost). Charges with a cost of 0 are omitted.
    #[must_use]
    pub fn of(charges: impl IntoIterator<Item = (u64, u64)>) -> LogState {
        let mut log = LogState::default();
        for (time, cost) in charges.into_iter().filter(|(_, cost)| *cost > 0) {
            log.push(time, cost);
        }
        log
    }

    /// Returns the same log with a debt beyond its entries.
    #[must_use]
    pub fn with_debt(self, debt: u64) -> LogState {
        LogState { debt, ..self }
    }

    /// Returns the debt beyond the entries.
    #[must_use]
    pub fn debt(&self) -> u64 {
        self.debt
    }

    /// Returns the sum of the entries, without the debt. It includes entries that have expired since the last write,
    /// because a log does not know its window.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Returns the heap bytes of the log.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the charges, oldest first, as (time, cost).
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (mut offset, mut time, mut first) = (self.head, self.oldest, true);
        std::iter::from_fn(move || {
            if offset >= self.bytes.len() {
                return None;
            }
            let (gap, cost, next) = self.read_entry(offset);
            if !first {
                time += gap;
            }
            (offset, first) = (next, false);
            Some((time, cost))
        })
    }

    /// Returns by how much all entries must be shifted back so that none is ahead of a clock that went back.
    fn shift_back_at(&self, now: u64) -> u64 {
        if self.used == 0 { 0 } else { self.newest.saturating_sub(now).min(self.oldest) }
    }

    fn push(&mut self, now: u64, cost: u64) {
        if self.used == 0 {
            let bytes = std::mem::take(&mut self.bytes);
            *self = LogState { bytes, oldest: now, newest: now, debt: self.debt, ..LogState::default() };
            self.bytes.clear();
        }
        // Free space at the front is reused before the buffer grows, once it is large enough to be worth moving the
        // rest. The buffer grows by a sixteenth: doubling could waste as much memory as the entries take.
        if self.bytes.len() + 16 > self.bytes.capacity() {
            let grain = self.bytes.capacity() / 16;
            if self.head > grain {
                self.bytes.drain(..self.head);
                self.head = 0;
            } else {
                self.bytes.reserve_exact(grain + 32);
            }
        }
        let time = now.max(self.newest);
        write_varint(&mut self.bytes, u128::from(time - self.newest) << 1 | u128::from(cost != 1));
        if cost != 1 {
            write_varint(&mut self.bytes, u128::from(cost));
        }
        self.newest = time;
        self.used += cost;
    }

    fn pop(&mut self) {
        let (_, cost, next) = self.read_entry(self.head);
        self.used -= cost;
        self.head = next;
        if next < self.bytes.len() {
            self.oldest += self.read_entry(next).0;
        } else {
            // An empty log keeps no times: after a clock step back they would lie ahead.
            self.bytes.clear();
            (self.head, self.oldest, self.newest) = (0, 0, 0);
        }
    }

    /// Removes `amount` from the entries of the time `removed_time`.
    fn remove_at(&mut self, removed_time: u64, mut amount: u64) {
        let entries: Vec<_> = self.entries().collect();
        let mut rebuilt = LogState::default();
        for (time, cost) in entries {
            let taken = if time == removed_time { cost.min(amount) } else { 0 };
            amount -= taken;
            if cost > taken {
                rebuilt.push(time, cost - taken);
            }
        }
        *self = rebuilt.with_debt(self.debt);
    }

    /// Removes `amount`, newest entries first.
    fn remove_newest(&mut self, amount: u64) {
        let mut left = self.used.saturating_sub(amount);
        if left == self.used {
            return;
        }
        let kept = self.entries().map_while(|(time, cost)| {
            let kept = cost.min(left);
            left -= kept;
            (kept > 0).then_some((time, kept))
        });
        *self = LogState::of(kept).with_debt(self.debt);
    }

    /// Returns the gap and the cost of the entry at a byte offset, and the offset of the next one.
    fn read_entry(&self, offset: usize) -> (u64, u64, usize) {
        let (head, next) = read_varint(&self.bytes, offset);
        let gap = (head >> 1) as u64;
        if head & 1 == 0 {
            return (gap, 1, next);
        }
        let (cost, next) = read_varint(&self.bytes, next);
        (gap, cost as u64, next)
    }
}

impl Algorithm for SlidingLog {
    type State = LogState;

    fn peek(&self, log: &LogState, now: u64, cost: u64) -> Decision {
        if log.debt > 0 && !self.is_up_to_date(log, now) {
            // The debt paid meanwhile is computed on a copy, because debts are rare.
            let mut paid = log.clone();
            self.bring_up_to_date(&mut paid, now);
            return self.peek_up_to_date(&paid, now, cost);
        }
        self.peek_up_to_date(log, now, cost)
    }

    fn check(&self, log: &mut LogState, now: u64, cost: u64) -> Decision {
        if cost == 0 {
            return self.peek(log, now, 0);
        }
        self.bring_up_to_date(log, now);
        let decision = self.peek(log, now, cost);
        if decision.is_allowed() {
            log.push(now, cost);
        }
        decision
    }

    fn force(&self, log: &mut LogState, now: u64, cost: u64) -> u64 {
        self.bring_up_to_date(log, now);
        let fits = cost.min(self.limit.saturating_sub(log.used));
        if fits > 0 {
            log.push(now, fits);
        }
        cost - fits
    }

    fn owe(&self, log: &mut LogState, now: u64, cost: u64) -> u64 {
        self.bring_up_to_date(log, now);
        let fits = cost.min((self.limit + self.max_debt).saturating_sub(log.used + log.debt));
        log.debt += fits;
        self.pay_debt(log, now);
        cost - fits
    }

    fn refund(&self, log: &mut LogState, now: u64, charged: &Charged, amount: u64) {
        self.bring_up_to_date(log, now);
        log.remove_at(charged.mark, amount.min(charged.cost));
        // The refunded capacity goes to the debt first.
        self.pay_debt(log, now);
    }

    fn credit(&self, log: &mut LogState, now: u64, amount: u64) {
        self.bring_up_to_date(log, now);
        // The debt is the newest part of the usage.
        let forgiven = log.debt.min(amount);
        log.debt -= forgiven;
        log.remove_newest(amount - forgiven);
    }

    fn charged(&self, log: &LogState, now: u64, cost: u64) -> Charged {
        Charged { at: now, cost, mark: log.newest, part: 0 }
    }

    fn expires_at(&self, log: &LogState) -> u64 {
        match (log.used, log.debt) {
            (0, _) => 0,
            (_, 0) => log.newest.saturating_add(self.window),
            _ => self.debt_paid_at(log),
        }
    }

    fn refresh(&self, log: &mut LogState, now: u64) {
        self.bring_up_to_date(log, now);
    }

    fn state_with_used(&self, used: u64, now: u64) -> LogState {
        LogState::of([(now, used.min(self.limit))])
    }
}

fn write_varint(bytes: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Returns the number at a byte offset, and the offset after it.
fn read_varint(bytes: &[u8], mut offset: usize) -> (u128, usize) {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[offset];
        value |= u128::from(byte & 0x7f) << shift;
        offset += 1;
        shift += 7;
        if byte & 0x80 == 0 {
            return (value, offset);
        }
    }
}
