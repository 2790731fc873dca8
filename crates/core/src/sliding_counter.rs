use crate::algorithm::{Algorithm, Charged};
use crate::decision::{Decision, Verdict};
use crate::quota::{AlgorithmKind, Quota};
use crate::tick::Tick;

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
            CounterState { start, ..self }
        } else if begun - start == window {
            CounterState { start: begun, previous: self.current, current: 0, ..self }
        } else {
            CounterState { start: begun, previous: 0, current: 0, ..self }
        }
    }

    /// What is used at `now`, rounded up, by the windows that it was counted in.
    #[must_use]
    pub fn used_at(&self, now: u64) -> u64 {
        if self.window == 0 {
            return 0;
        }
        self.rotated(now).weight(now).div_ceil(u128::from(self.window)).min(u128::from(u64::MAX)) as u64
    }

    /// How far `now` is into the current window; 0 if the clock is before it.
    fn offset(&self, now: u64) -> u64 {
        now.saturating_sub(self.start)
    }

    /// What counts at `now`, in units of `1/window`.
    fn weight(&self, now: u64) -> u128 {
        let overlap = self.window - self.offset(now);
        u128::from(self.previous) * u128::from(overlap) + u128::from(self.current) * u128::from(self.window)
    }
}

impl SlidingCounter {
    /// Compiles a sliding window counter; `None` for other quotas.
    #[must_use]
    pub fn new(quota: &Quota, tick: Tick) -> Option<SlidingCounter> {
        (quota.kind() == AlgorithmKind::SlidingWindowCounter)
            .then(|| SlidingCounter { limit: quota.amount(), window: quota.period_ns() / tick.ns() })
    }

    /// The state as it counts at `now`, in windows of this quota's length.
    fn view(&self, state: &CounterState, now: u64) -> CounterState {
        let fresh = CounterState { start: now - now % self.window, window: self.window, previous: 0, current: 0 };
        if state.window == 0 {
            return fresh;
        }
        if state.window != self.window {
            return CounterState { current: state.used_at(now).min(self.limit), ..fresh };
        }
        let rotated = state.rotated(now);
        CounterState { previous: rotated.previous.min(self.limit), current: rotated.current.min(self.limit), ..rotated }
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

    /// The first time at which the weighed counts leave room for `cost ≤ limit`.
    fn retry_after(&self, view: &CounterState, now: u64, cost: u64) -> u64 {
        let (window, offset) = (self.window, view.offset(now));
        let until_start = view.start.saturating_sub(now);
        // Where a count of `c` is weighed down to `room`: the last `room/c` of a window.
        let last_part = |room: u64, c: u64| (u128::from(room) * u128::from(window) / u128::from(c)) as u64;
        if view.current + cost <= self.limit {
            let room = self.limit - view.current - cost;
            // Refused although it fits beside `current`, so `previous` is not 0.
            return until_start + (window - last_part(room, view.previous).min(window)).saturating_sub(offset);
        }
        // The current window must become the previous one and fade in turn.
        let fading = window - last_part(self.limit - cost, view.current).min(window);
        until_start + (window - offset) + fading
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

    fn give_back(&self, state: &mut CounterState, now: u64, charged: &Charged, amount: u64) {
        let mut view = self.view(state, now);
        let amount = amount.min(charged.cost);
        if view.start == charged.mark {
            view.current = view.current.saturating_sub(amount);
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
            let older = amount.saturating_sub(view.current);
            let (previous, current) = (view.previous.saturating_sub(older), view.current.saturating_sub(amount));
            *state = CounterState { previous, current, ..view };
        }
    }

    fn charged(&self, state: &CounterState, now: u64, cost: u64) -> Charged {
        Charged { at: now, cost, mark: state.start, part: 0 }
    }

    fn untouched_at(&self, state: &CounterState) -> u64 {
        match (state.current, state.previous) {
            (0, 0) => 0,
            (0, _) => state.start.saturating_add(state.window),
            _ => state.start.saturating_add(2 * state.window),
        }
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
