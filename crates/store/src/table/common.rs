//! The common cases of a check, kept short: a key that the same quota wrote, a
//! cost that it can hold, and no queue. They take a time that may be a little
//! old, and leave everything else to [`Table::apply`].

use tollgate_core::{BucketState, CheckSteps, Decision};

use super::{Place, Table, find_in, slots_of};
use crate::limit::BucketRule;
use crate::sync::Ordering;
use crate::table::cell::{Cell, Entry};

/// A decision, and the state that it left.
#[derive(Clone, Copy)]
pub(crate) struct Checked {
    pub(crate) decision: Decision,
    pub(crate) after: BucketState,
}

/// What a look at a known key says of a charge to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Passes,
    Refused,
    /// It takes more to say.
    Unknown,
}

/// A charge that passes if nothing changes its key before it is made.
#[derive(Clone, Copy)]
pub(crate) struct Found<'t> {
    cell: &'t Cell,
    /// What the slot held. Its two words may not belong together: then the swap fails.
    entry: Entry,
    pub(crate) next: BucketState,
    rule: &'t BucketRule,
}

impl Found<'_> {
    /// Makes the charge; `false` if the slot has changed since it was looked at.
    #[inline(always)]
    pub(crate) fn make(&self) -> bool {
        self.cell.swap_if(self.entry, self.entry.with(self.next))
    }

    /// The answer to the charge once it is made, at the same `now` and cost.
    #[inline(always)]
    pub(crate) fn decision(&self, now: u64, cost: u64) -> Decision {
        match self.rule.bucket.whole_steps() {
            Some(steps) if cost == 1 => steps.passed(self.next, now),
            _ => self.decision_in_parts(now, cost),
        }
    }

    #[inline(never)]
    fn decision_in_parts(&self, now: u64, cost: u64) -> Decision {
        let bucket = &self.rule.bucket;
        match bucket.fraction_steps() {
            Some(steps) if cost == 1 => steps.passed(self.next, now),
            _ => bucket.steps(cost).passed(self.next, now),
        }
    }
}

impl Table {
    /// Looks for a known key and whether a charge to it passes, in a common
    /// case. Where it passes, `found` receives what it takes to make the charge
    /// without looking again. A cost of 0 is not common; `now` may be a little old.
    #[inline(always)]
    pub(crate) fn find_passing<'t>(
        &'t self,
        place: Place<'t>,
        now: u64,
        cost: u64,
        found: &mut Option<Found<'t>>,
    ) -> Look {
        match place.rule.bucket.whole_steps() {
            Some(steps) if cost == 1 => self.find_passing_in_steps(place, now, steps, found),
            _ => self.find_passing_in_parts(place, now, cost, found),
        }
    }

    #[inline(never)]
    fn find_passing_in_parts<'t>(
        &'t self,
        place: Place<'t>,
        now: u64,
        cost: u64,
        found: &mut Option<Found<'t>>,
    ) -> Look {
        let bucket = &place.rule.bucket;
        match bucket.fraction_steps() {
            _ if cost == 0 => Look::Unknown,
            Some(steps) if cost == 1 => self.find_passing_in_steps(place, now, steps, found),
            _ => self.find_passing_in_steps(place, now, bucket.steps(cost), found),
        }
    }

    #[inline(always)]
    fn find_passing_in_steps<'t>(
        &'t self,
        place: Place<'t>,
        now: u64,
        steps: impl CheckSteps,
        found: &mut Option<Found<'t>>,
    ) -> Look {
        let Some((cell, meta)) = self.find_known(place) else { return Look::Unknown };
        let entry = Entry { tat: cell.tat(), meta };
        if let Some(next) = steps.pass(entry.state(), now) {
            *found = Some(Found { cell, entry, next, rule: place.rule });
            return Look::Passes;
        }
        // The two words may not belong together, or the state may be newer than `now`.
        if cell.meta() == meta && steps.refused(entry.state(), now).is_some() { Look::Refused } else { Look::Unknown }
    }

    /// Decides and charges a known key in a common case. `None` leaves it all
    /// to [`apply`](Table::apply). `cost` is not 0; `now` may be a little old.
    #[inline(always)]
    pub(crate) fn check_common(&self, place: Place<'_>, now: u64, cost: u64) -> Option<Checked> {
        match place.rule.bucket.whole_steps() {
            Some(steps) if cost == 1 => self.check_in_steps(place, now, steps),
            _ => match place.rule.bucket.fraction_steps() {
                Some(steps) if cost == 1 => self.check_in_steps(place, now, steps),
                _ => self.check_in_parts(place, now, cost),
            },
        }
    }

    #[inline(never)]
    fn check_in_parts(&self, place: Place<'_>, now: u64, cost: u64) -> Option<Checked> {
        self.check_in_steps(place, now, place.rule.bucket.steps(cost))
    }

    #[inline(always)]
    fn check_in_steps(&self, place: Place<'_>, now: u64, steps: impl CheckSteps) -> Option<Checked> {
        let (cell, meta) = self.find_known(place)?;
        // The two words may not belong together yet: the swap finds out, and a refusal looks again.
        // Every reading less is a chance less for another thread to take the line away.
        let entry = Entry { tat: cell.tat(), meta };
        if let Some(next) = steps.pass(entry.state(), now) {
            if cell.swap_if(entry, entry.with(next)) {
                return Some(Checked { decision: steps.passed(next, now), after: next });
            }
        } else if cell.meta() == meta {
            // A state that seems to lie too far ahead is not refused here: `now` may be older than it.
            return Some(Checked { decision: steps.refused(entry.state(), now)?, after: entry.state() });
        }
        self.check_changed(cell, place, now, steps)
    }

    /// Goes on where another thread has changed the slot meanwhile. (Apart, because what a loop
    /// keeps for its next round would cost every check.)
    #[inline(never)]
    fn check_changed(&self, cell: &Cell, place: Place<'_>, now: u64, steps: impl CheckSteps) -> Option<Checked> {
        loop {
            let entry = cell.load();
            if entry.owner() != place.owner() {
                return None;
            }
            let Some(next) = steps.pass(entry.state(), now) else {
                return Some(Checked { decision: steps.refused(entry.state(), now)?, after: entry.state() });
            };
            if cell.swap_if(entry, entry.with(next)) {
                return Some(Checked { decision: steps.passed(next, now), after: next });
            }
        }
    }

    /// What the answer to a known key would be, in a common case, and what remains without it.
    #[inline(always)]
    pub(crate) fn look_common(&self, place: Place<'_>, now: u64, cost: u64) -> Option<Decision> {
        match place.rule.bucket.whole_steps() {
            Some(steps) if cost <= 1 => self.look_in_steps(place, now, cost, steps),
            _ => self.look_in_parts(place, now, cost),
        }
    }

    #[inline(never)]
    fn look_in_parts(&self, place: Place<'_>, now: u64, cost: u64) -> Option<Decision> {
        self.look_in_steps(place, now, cost, place.rule.bucket.steps(cost))
    }

    #[inline(always)]
    fn look_in_steps(&self, place: Place<'_>, now: u64, cost: u64, steps: impl CheckSteps) -> Option<Decision> {
        let state = self.known_state(place)?;
        if cost > 0 && steps.pass(state, now).is_none() {
            return steps.refused(state, now);
        }
        steps.untouched(state, now)
    }

    /// Whether a charge to a known key would pass at once; `None` where it takes more to say.
    #[inline(always)]
    pub(crate) fn passes_common(&self, place: Place<'_>, now: u64, cost: u64) -> Option<bool> {
        match place.rule.bucket.whole_steps() {
            Some(steps) if cost == 1 => self.passes_in_steps(place, now, steps),
            _ => self.passes_in_parts(place, now, cost),
        }
    }

    #[inline(never)]
    fn passes_in_parts(&self, place: Place<'_>, now: u64, cost: u64) -> Option<bool> {
        if cost == 0 {
            return Some(true);
        }
        self.passes_in_steps(place, now, place.rule.bucket.steps(cost))
    }

    #[inline(always)]
    fn passes_in_steps(&self, place: Place<'_>, now: u64, steps: impl CheckSteps) -> Option<bool> {
        let state = self.known_state(place)?;
        if steps.pass(state, now).is_some() {
            return Some(true);
        }
        if steps.refused(state, now).is_some() { Some(false) } else { None }
    }

    /// The state of a key that this quota wrote.
    #[inline(always)]
    fn known_state(&self, place: Place<'_>) -> Option<BucketState> {
        let entry = self.find_known(place)?.0.load();
        if entry.owner() == place.owner() { Some(entry.state()) } else { None }
    }

    /// A key that this quota wrote: in its home line, mostly.
    #[inline(always)]
    fn find_known(&self, place: Place<'_>) -> Option<(&Cell, u64)> {
        let owner = place.owner();
        let line = &self.lines[self.home(place.hash)];
        for cell in slots_of(place.hash, line) {
            let meta = cell.meta();
            if (Entry { tat: 0, meta }).owner() == owner {
                return Some((cell, meta));
            }
        }
        self.find_away(place)
    }

    /// A key that found its home line full when it came.
    #[inline(never)]
    fn find_away(&self, place: Place<'_>) -> Option<(&Cell, u64)> {
        let reach = usize::from(self.reach[self.home(place.hash)].load(Ordering::Acquire));
        (1..=reach).find_map(|distance| {
            let cell = find_in(self.line(place.hash, distance), place.hash)?;
            let meta = cell.meta();
            ((Entry { tat: 0, meta }).owner() == place.owner()).then_some((cell, meta))
        })
    }
}
