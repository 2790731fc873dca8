use crate::algorithm::{Algorithm, Charged};
use crate::decision::{Decision, Verdict};
use crate::quota::{AlgorithmKind, Quota};
use crate::tick::Tick;
use crate::window::owed::Owed;

/// Two counters that imitate a sliding window: the previous window counts by
/// the part of it that is still in sight.
///
/// In any trailing window at most `2 limit - 1` can pass, and that only where
/// traffic is bunched at the edges; ordinary traffic comes within a few percent
/// of the exact log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingCounter {
    limit: u64,
    window: u64,
    max_debt: u64,
}

/// One key's two counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterState {
    /// When the current window began.
    pub start: u64,
    /// How long a window lasts; 0 if there never was one.
    pub window: u64,
    /// What was charged in the window before.
    pub previous: u64,
    /// What was charged in the current one.
    pub current: u64,
    /// What is owed beyond it, and charged to later windows. Where there is any, `current` is the whole limit.
    pub debt: u64,
}

impl CounterState {
    /// Moved on to the window of its own length that contains `now`.
    fn rotated(self, now: u64) -> CounterState {
        let window = self.window;
        let begun = now - now % window;
        // A window that has not begun yet stays in force: the clock went back.
        // It is never further away than the next boundary.
        let start = self.start.min(begun.saturating_add(window));
        if start >= begun {
            return CounterState { start, ..self };
        }
        let (previous, owed) = self.owed().later((begun - start) / window);
        CounterState { start: begun, window, previous, current: owed.used, debt: owed.debt }
    }

    fn owed(&self) -> Owed {
        Owed { used: self.current, debt: self.debt }
    }

    fn with(self, owed: Owed) -> CounterState {
        CounterState { current: owed.used, debt: owed.debt, ..self }
    }

    /// What is used at `now`, rounded up, by the windows that it was counted in
    /// or that pay for it. What is owed beyond that is not among it.
    #[must_use]
    pub fn used_at(&self, now: u64) -> u64 {
        if self.window == 0 {
            return 0;
        }
        let used = CounterState { debt: 0, ..self.rotated(now) };
        used.weight(now).div_ceil(u128::from(self.window)).min(u128::from(u64::MAX)) as u64
    }

    /// How far `now` is into the current window; 0 if the clock is before it.
    fn offset(&self, now: u64) -> u64 {
        now.saturating_sub(self.start)
    }

    /// What counts at `now`, in units of `1/window`.
    fn weight(&self, now: u64) -> u128 {
        let overlap = self.window - self.offset(now);
        u128::from(self.previous) * u128::from(overlap) + u128::from(self.owed().all()) * u128::from(self.window)
    }
}

impl SlidingCounter {
    /// Compiles a sliding window counter; `None` for other quotas.
    #[must_use]
    pub fn new(quota: &Quota, tick: Tick) -> Option<SlidingCounter> {
        let (limit, window, max_debt) = (quota.amount(), quota.period_ns() / tick.ns(), quota.max_debt());
        (quota.kind() == AlgorithmKind::SlidingWindowCounter).then_some(SlidingCounter { limit, window, max_debt })
    }

    /// The state as it counts at `now`, in windows of this quota's length.
    fn view(&self, state: &CounterState, now: u64) -> CounterState {
        let start = now - now % self.window;
        let fresh = CounterState { start, window: self.window, previous: 0, current: 0, debt: 0 };
        if state.window == 0 {
            return fresh;
        }
        let rotated = state.rotated(now);
        let under_own = |owed: Owed| owed.under(self.limit, self.max_debt);
        if state.window != self.window {
            let used = state.used_at(now).min(self.limit);
            return fresh.with(under_own(Owed { used, debt: rotated.debt }));
        }
        CounterState { previous: rotated.previous.min(self.limit), ..rotated }.with(under_own(rotated.owed()))
    }

    /// Room for more, in units of `1/window`.
    fn room(&self, view: &CounterState, now: u64) -> u128 {
        (u128::from(self.limit) * u128::from(self.window)).saturating_sub(view.weight(now))
    }

    fn verdict(&self, view: &CounterState, now: u64, cost: u64) -> Verdict {
        if cost > self.limit {
            Verdict::Impossible
        } else if u128::from(cost) * u128::from(self.window) <= self.room(view, now) {
            Verdict::Allowed { delay: 0 }
        } else {
            Verdict::Refused { retry_after: Some(self.retry_after(view, now, cost)) }
        }
    }

    /// The first time at which the weighed counts leave room for `cost ≤ limit`, which they do not now.
    fn retry_after(&self, view: &CounterState, now: u64, cost: u64) -> u64 {
        let (window, offset) = (self.window, view.offset(now));
        let until_start = view.start.saturating_sub(now);
        // Where a count of `c` is weighed down to `room`: the last `room/c` of a window.
        let last_part = |room: u64, c: u64| (u128::from(room) * u128::from(window)).checked_div(u128::from(c));
        // The first window in which it fits beside what that window has to pay, and what fades there.
        let windows = (view.owed().all() + cost).saturating_sub(self.limit).div_ceil(self.limit);
        let (before, owed) = view.owed().later(windows);
        let previous = if windows == 0 { view.previous } else { before };
        // Where nothing fades it fits from the start.
        let fits_for = last_part(self.limit - owed.used - cost, previous).unwrap_or(u128::MAX);
        let fading = window - fits_for.min(u128::from(window)) as u64;
        until_start.saturating_add((windows.saturating_mul(window) + fading).saturating_sub(offset))
    }

    fn answer(&self, view: &CounterState, now: u64, verdict: Verdict) -> Decision {
        let remaining = (self.room(view, now) / u128::from(self.window)) as u64;
        Decision {
            verdict,
            limit: self.limit,
            remaining,
            next_after: if remaining >= self.limit { 0 } else { self.retry_after(view, now, remaining + 1) },
            reset_after: self.untouched_at(view).saturating_sub(now),
        }
    }
}

impl Algorithm for SlidingCounter {
    type State = CounterState;

    fn look(&self, state: &CounterState, now: u64, cost: u64) -> Decision {
        let mut view = self.view(state, now);
        let verdict = if cost == 0 { Verdict::Allowed { delay: 0 } } else { self.verdict(&view, now, cost) };
        if matches!(verdict, Verdict::Allowed { .. }) {
            view.current += cost;
        }
        self.answer(&view, now, verdict)
    }

    fn check(&self, state: &mut CounterState, now: u64, cost: u64) -> Decision {
        if cost == 0 {
            return self.look(state, now, 0);
        }
        let mut view = self.view(state, now);
        let verdict = self.verdict(&view, now, cost);
        if matches!(verdict, Verdict::Allowed { .. }) {
            view.current += cost;
        }
        if view.current > 0 || view.previous > 0 {
            *state = view;
        }
        self.answer(&view, now, verdict)
    }

    fn force(&self, state: &mut CounterState, now: u64, cost: u64) -> u64 {
        let mut view = self.view(state, now);
        let fits = u128::from(cost).min(self.room(&view, now) / u128::from(self.window)) as u64;
        view.current += fits;
        *state = view;
        cost - fits
    }

    fn owe(&self, state: &mut CounterState, now: u64, cost: u64) -> u64 {
        let view = self.view(state, now);
        let most = u128::from(self.limit + self.max_debt) * u128::from(self.window);
        let room = most.saturating_sub(view.weight(now)) / u128::from(self.window);
        let fits = u128::from(cost).min(room) as u64;
        *state = view.with(Owed::of(view.owed().all() + fits, self.limit));
        cost - fits
    }

    fn give_back(&self, state: &mut CounterState, now: u64, charged: &Charged, amount: u64) {
        let mut view = self.view(state, now);
        let amount = amount.min(charged.cost);
        if view.start == charged.mark {
            view = view.with(Owed::of(view.owed().all().saturating_sub(amount), self.limit));
        } else if view.start.checked_sub(view.window) == Some(charged.mark) {
            view.previous = view.previous.saturating_sub(amount);
        } else {
            return;
        }
        *state = view;
    }

    fn credit(&self, state: &mut CounterState, now: u64, amount: u64) {
        let view = self.view(state, now);
        if view.current > 0 || view.previous > 0 {
            // The newest is what is owed, and the oldest the previous window.
            let all = view.owed().all();
            let previous = view.previous.saturating_sub(amount.saturating_sub(all));
            *state = CounterState { previous, ..view }.with(Owed::of(all.saturating_sub(amount), self.limit));
        }
    }

    fn charged(&self, state: &CounterState, now: u64, cost: u64) -> Charged {
        Charged { at: now, cost, mark: state.start, part: 0 }
    }

    fn untouched_at(&self, state: &CounterState) -> u64 {
        let windows = match (state.owed().windows(), state.previous) {
            (0, 0) => return 0,
            (windows, _) => windows.saturating_add(1),
        };
        state.start.saturating_add(windows.saturating_mul(state.window))
    }

    fn refresh(&self, state: &mut CounterState, now: u64) {
        let view = self.view(state, now);
        if view.current > 0 || view.previous > 0 {
            *state = view;
        }
    }

    fn carried(&self, used: u64, now: u64) -> CounterState {
        CounterState { current: used.min(self.limit), ..self.view(&CounterState::default(), now) }
    }
}
