//! Checks that are a *hit*: the key has an entry that the same quota wrote, and the charge passes at once or is refused
//! for now. Not a hit are a queue, a cost that can never pass, a charge of cost 0 (a peek may have it), and a TAT that
//! lies further ahead than the quota allows. Hits accept a slightly stale time. All other cases are left to
//! [`BucketTable::apply`].

use tollgate_core::{BucketState, CheckKernel, Decision};

use super::{BucketKey, BucketTable, find_in, slots_of};
use crate::limit::TaggedBucket;
use crate::sync::Ordering;
use crate::table::cell::{BucketEntry, Cell};

/// A decision, and the state after it.
#[derive(Clone, Copy)]
pub(crate) struct CheckResult {
    pub(crate) decision: Decision,
    pub(crate) after: BucketState,
}

/// Whether a charge passes, if it is a hit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HitResult {
    Passes,
    Refused,
    /// It is not a hit: the key is unknown, another quota wrote it, or the case is rare.
    NoHit,
}

/// A charge that passes if its slot does not change before it is committed.
#[derive(Clone, Copy)]
pub(crate) struct PendingCharge<'t> {
    cell: &'t Cell,
    /// The content of the slot. Its two words were read separately, so the read may be torn: then the swap fails.
    entry: BucketEntry,
    pub(crate) next: BucketState,
    quota: &'t TaggedBucket,
}

impl PendingCharge<'_> {
    /// Commits the charge by a compare-and-swap. Returns `false` if the slot has changed since it was read.
    #[inline(always)]
    pub(crate) fn commit(&self) -> bool {
        self.cell.swap_if(self.entry, self.entry.with(self.next))
    }

    /// Returns the decision for the committed charge, at the same `now` and cost.
    #[inline(always)]
    pub(crate) fn decision(&self, now: u64, cost: u64) -> Decision {
        match self.quota.bucket.whole_tick_kernel() {
            Some(kernel) if cost == 1 => kernel.allowed_decision(self.next, now),
            _ => self.decision_any_cost(now, cost),
        }
    }

    #[inline(never)]
    fn decision_any_cost(&self, now: u64, cost: u64) -> Decision {
        let bucket = &self.quota.bucket;
        match bucket.fraction_kernel() {
            Some(kernel) if cost == 1 => kernel.allowed_decision(self.next, now),
            _ => bucket.kernel(cost).allowed_decision(self.next, now),
        }
    }
}

impl BucketTable {
    /// Finds a known key, and whether a charge to it passes. If it passes, `pending` receives the data to commit the
    /// charge without another search. A cost of 0 is not a hit; `now` may be slightly stale.
    #[inline(always)]
    pub(crate) fn find_passing<'t>(
        &'t self,
        key: BucketKey<'t>,
        now: u64,
        cost: u64,
        pending: &mut Option<PendingCharge<'t>>,
    ) -> HitResult {
        match key.quota.bucket.whole_tick_kernel() {
            Some(kernel) if cost == 1 => self.find_passing_with_kernel(key, now, kernel, pending),
            _ => self.find_passing_any_cost(key, now, cost, pending),
        }
    }

    #[inline(never)]
    fn find_passing_any_cost<'t>(
        &'t self,
        key: BucketKey<'t>,
        now: u64,
        cost: u64,
        pending: &mut Option<PendingCharge<'t>>,
    ) -> HitResult {
        let bucket = &key.quota.bucket;
        match bucket.fraction_kernel() {
            _ if cost == 0 => HitResult::NoHit,
            Some(kernel) if cost == 1 => self.find_passing_with_kernel(key, now, kernel, pending),
            _ => self.find_passing_with_kernel(key, now, bucket.kernel(cost), pending),
        }
    }

    #[inline(always)]
    fn find_passing_with_kernel<'t>(
        &'t self,
        key: BucketKey<'t>,
        now: u64,
        kernel: impl CheckKernel,
        pending: &mut Option<PendingCharge<'t>>,
    ) -> HitResult {
        let Some((cell, meta)) = self.find_known(key) else { return HitResult::NoHit };
        let entry = BucketEntry { tat: cell.tat(), meta };
        if let Some(next) = kernel.next_state(entry.state(), now) {
            *pending = Some(PendingCharge { cell, entry, next, quota: key.quota });
            return HitResult::Passes;
        }
        // The read may be torn, or the state may be newer than `now`.
        if cell.meta() == meta && kernel.refusal(entry.state(), now).is_some() {
            HitResult::Refused
        } else {
            HitResult::NoHit
        }
    }

    /// Decides and charges a known key. `None` (no hit) leaves it to [`apply`](BucketTable::apply). `cost` is not 0;
    /// `now` may be slightly stale.
    #[inline(always)]
    pub(crate) fn check_hit(&self, key: BucketKey<'_>, now: u64, cost: u64) -> Option<CheckResult> {
        match key.quota.bucket.whole_tick_kernel() {
            Some(kernel) if cost == 1 => self.check_with_kernel(key, now, kernel),
            _ => match key.quota.bucket.fraction_kernel() {
                Some(kernel) if cost == 1 => self.check_with_kernel(key, now, kernel),
                _ => self.check_any_cost(key, now, cost),
            },
        }
    }

    #[inline(never)]
    fn check_any_cost(&self, key: BucketKey<'_>, now: u64, cost: u64) -> Option<CheckResult> {
        self.check_with_kernel(key, now, key.quota.bucket.kernel(cost))
    }

    #[inline(always)]
    fn check_with_kernel(&self, key: BucketKey<'_>, now: u64, kernel: impl CheckKernel) -> Option<CheckResult> {
        let (cell, meta) = self.find_known(key)?;
        // The read of the two words may be torn: the swap detects that, and a refusal reads the meta word again. Each
        // avoided read leaves other threads less time to take the cache line away.
        let entry = BucketEntry { tat: cell.tat(), meta };
        if let Some(next) = kernel.next_state(entry.state(), now) {
            if cell.swap_if(entry, entry.with(next)) {
                return Some(CheckResult { decision: kernel.allowed_decision(next, now), after: next });
            }
        } else if cell.meta() == meta {
            // A TAT that seems to lie too far ahead is not refused here: `now` may be older than the state.
            return Some(CheckResult { decision: kernel.refusal(entry.state(), now)?, after: entry.state() });
        }
        self.check_changed(cell, key, now, kernel)
    }

    /// Retries after another thread has changed the slot. (It is a separate function, because the registers that a loop
    /// needs for its next iteration would slow down every check.)
    #[inline(never)]
    fn check_changed(
        &self,
        cell: &Cell,
        key: BucketKey<'_>,
        now: u64,
        kernel: impl CheckKernel,
    ) -> Option<CheckResult> {
        loop {
            let entry = cell.load();
            if entry.owner() != key.owner() {
                return None;
            }
            let Some(next) = kernel.next_state(entry.state(), now) else {
                return Some(CheckResult { decision: kernel.refusal(entry.state(), now)?, after: entry.state() });
            };
            if cell.swap_if(entry, entry.with(next)) {
                return Some(CheckResult { decision: kernel.allowed_decision(next, now), after: next });
            }
        }
    }

    /// Returns the decision for a known key without charging it, with the tokens that remain now. `None` if it is not a
    /// hit.
    #[inline(always)]
    pub(crate) fn peek_hit(&self, key: BucketKey<'_>, now: u64, cost: u64) -> Option<Decision> {
        match key.quota.bucket.whole_tick_kernel() {
            Some(kernel) if cost <= 1 => self.peek_with_kernel(key, now, cost, kernel),
            _ => self.peek_any_cost(key, now, cost),
        }
    }

    #[inline(never)]
    fn peek_any_cost(&self, key: BucketKey<'_>, now: u64, cost: u64) -> Option<Decision> {
        self.peek_with_kernel(key, now, cost, key.quota.bucket.kernel(cost))
    }

    #[inline(always)]
    fn peek_with_kernel(&self, key: BucketKey<'_>, now: u64, cost: u64, kernel: impl CheckKernel) -> Option<Decision> {
        let state = self.known_state(key)?;
        if cost > 0 && kernel.next_state(state, now).is_none() {
            return kernel.refusal(state, now);
        }
        kernel.peek_decision(state, now)
    }

    /// Returns whether a charge to a known key would pass at once; `None` if it is not a hit.
    #[inline(always)]
    pub(crate) fn passes_hit(&self, key: BucketKey<'_>, now: u64, cost: u64) -> Option<bool> {
        match key.quota.bucket.whole_tick_kernel() {
            Some(kernel) if cost == 1 => self.passes_with_kernel(key, now, kernel),
            _ => self.passes_any_cost(key, now, cost),
        }
    }

    #[inline(never)]
    fn passes_any_cost(&self, key: BucketKey<'_>, now: u64, cost: u64) -> Option<bool> {
        if cost == 0 {
            return Some(true);
        }
        self.passes_with_kernel(key, now, key.quota.bucket.kernel(cost))
    }

    #[inline(always)]
    fn passes_with_kernel(&self, key: BucketKey<'_>, now: u64, kernel: impl CheckKernel) -> Option<bool> {
        let state = self.known_state(key)?;
        if kernel.next_state(state, now).is_some() {
            return Some(true);
        }
        if kernel.refusal(state, now).is_some() { Some(false) } else { None }
    }

    /// Returns the state of a key, if its own quota wrote it.
    #[inline(always)]
    fn known_state(&self, key: BucketKey<'_>) -> Option<BucketState> {
        let entry = self.find_known(key)?.0.load();
        if entry.owner() == key.owner() { Some(entry.state()) } else { None }
    }

    /// Finds the slot of a key whose own quota wrote it, usually in its home line. Returns the slot and its meta word.
    #[inline(always)]
    fn find_known(&self, key: BucketKey<'_>) -> Option<(&Cell, u64)> {
        let owner = key.owner();
        let line = &self.lines[self.home(key.hash)];
        for cell in slots_of(key.hash, line) {
            let meta = cell.meta();
            if (BucketEntry { tat: 0, meta }).owner() == owner {
                return Some((cell, meta));
            }
        }
        self.find_outside_home(key)
    }

    /// Finds a key whose home line was full when it was created.
    #[inline(never)]
    fn find_outside_home(&self, key: BucketKey<'_>) -> Option<(&Cell, u64)> {
        let max_distance = usize::from(self.max_probe_distances[self.home(key.hash)].load(Ordering::Acquire));
        (1..=max_distance).find_map(|distance| {
            let cell = find_in(self.line(key.hash, distance), key.hash)?;
            let meta = cell.meta();
            ((BucketEntry { tat: 0, meta }).owner() == key.owner()).then_some((cell, meta))
        })
    }
}
