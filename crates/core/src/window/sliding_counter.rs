use crate::algorithm::{Algorithm, Charged};
use crate::decision::{ChargeVerdict, Decision};
use crate::quota::{AlgorithmKind, Quota};
use crate::tick::Tick;
use crate::window::usage::WindowUsage;

/// A sliding window counter: two counters that approximate a sliding window. The previous window is weighed by the part
/// of it that overlaps the sliding window.
///
/// In any trailing window at most `2 limit - 1` can pass, and only if traffic is bunched at the edges. Ordinary traffic
/// is within a few percent of the exact log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingCounter {
    limit: u64,
    window: u64,
    max_debt: u64,
}

/// The two counts of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterState {
    /// The start of the current window.
    pub start: u64,
    /// The length of a window; 0 in the state of an unused key.
    pub window: u64,
    /// The amount charged in the previous window.
    pub previous: u64,
    /// The amount charged in the current window.
    pub current: u64,
    /// The debt beyond `current`, which later windows pay. If it is not 0, `current` is the whole limit.
    pub debt: u64,
}

impl CounterState {
    /// Returns the state advanced to the window, of its own length, that contains `now`.
    fn rotated(self, now: u64) -> CounterState {
        let window = self.window;
        let window_start = now - now % window;
        // A window that has not started yet stays active: the clock went back. Its start is capped at the next
        // boundary.
        let start = self.start.min(window_start.saturating_add(window));
        if start >= window_start {
            return CounterState { start, ..self };
        }
        let (previous, usage) = self.usage().after_windows((window_start - start) / window);
        CounterState { start: window_start, window, previous, current: usage.used, debt: usage.debt }
    }

    fn usage(&self) -> WindowUsage {
        WindowUsage { used: self.current, debt: self.debt }
    }

    fn with_usage(self, usage: WindowUsage) -> CounterState {
        CounterState { current: usage.used, debt: usage.debt, ..self }
    }

    /// Returns the amount used at `now`, rounded up, in the windows that counted it or that pay its debt. The remaining
    /// debt is not included.
    #[must_use]
    pub fn used_at(&self, now: u64) -> u64 {
        if self.window == 0 {
            return 0;
        }
        let used = CounterState { debt: 0, ..self.rotated(now) };
        used.weight(now).div_ceil(u128::from(self.window)).min(u128::from(u64::MAX)) as u64
    }

    /// Returns the offset of `now` in the current window; 0 if the clock is before its start.
    fn offset(&self, now: u64) -> u64 {
        now.saturating_sub(self.start)
    }

    /// Returns the weighed usage at `now`, in units of `1/window`.
    fn weight(&self, now: u64) -> u128 {
        let overlap = self.window - self.offset(now);
        u128::from(self.previous) * u128::from(overlap) + u128::from(self.usage().total()) * u128::from(self.window)
    }
}

impl SlidingCounter {
    /// Compiles a sliding window counter; `None` for other quotas.
    #[must_use]
    pub fn new(quota: &Quota, tick: Tick) -> Option<SlidingCounter> {
        let (limit, window, max_debt) = (quota.amount(), quota.period_ns() / tick.ns(), quota.max_debt());
        (quota.kind() == AlgorithmKind::SlidingWindowCounter).then_some(SlidingCounter { limit, window, max_debt })
    }

    /// Returns the state at `now`, in windows of this quota's length.
    fn view(&self, state: &CounterState, now: u64) -> CounterState {
        let start = now - now % self.window;
        let fresh = CounterState { start, window: self.window, previous: 0, current: 0, debt: 0 };
        if state.window == 0 {
            return fresh;
        }
        let rotated = state.rotated(now);
        let to_own = |usage: WindowUsage| usage.converted_to(self.limit, self.max_debt);
        if state.window != self.window {
            let used = state.used_at(now).min(self.limit);
            return fresh.with_usage(to_own(WindowUsage { used, debt: rotated.debt }));
        }
        CounterState { previous: rotated.previous.min(self.limit), ..rotated }.with_usage(to_own(rotated.usage()))
    }

    /// Returns the available capacity, in units of `1/window`.
    fn room(&self, view: &CounterState, now: u64) -> u128 {
        (u128::from(self.limit) * u128::from(self.window)).saturating_sub(view.weight(now))
    }

    fn verdict(&self, view: &CounterState, now: u64, cost: u64) -> ChargeVerdict {
        if cost > self.limit {
            ChargeVerdict::Impossible
        } else if u128::from(cost) * u128::from(self.window) <= self.room(view, now) {
            ChargeVerdict::Allowed { delay: 0 }
        } else {
            ChargeVerdict::Refused { retry_after: Some(self.retry_after(view, now, cost)) }
        }
    }

    /// Returns the time until the weighed counts leave capacity for `cost ≤ limit`, which does not fit now.
    fn retry_after(&self, view: &CounterState, now: u64, cost: u64) -> u64 {
        let (window, offset) = (self.window, view.offset(now));
        let until_start = view.start.saturating_sub(now);
        // A count of `c` weighs at most `room` in the last `room/c` of a window.
        let last_part = |room: u64, c: u64| (u128::from(room) * u128::from(window)).checked_div(u128::from(c));
        // The first window in which the cost fits beside the debt that this window pays, and the previous count that
        // fades during it.
        let windows = (view.usage().total() + cost).saturating_sub(self.limit).div_ceil(self.limit);
        let (before, usage) = view.usage().after_windows(windows);
        let previous = if windows == 0 { view.previous } else { before };
        // If nothing fades, the cost fits from the start of the window.
        let fits_for = last_part(self.limit - usage.used - cost, previous).unwrap_or(u128::MAX);
        let fading = window - fits_for.min(u128::from(window)) as u64;
        until_start.saturating_add((windows.saturating_mul(window) + fading).saturating_sub(offset))
    }

    fn decision(&self, view: &CounterState, now: u64, verdict: ChargeVerdict) -> Decision {
        let remaining = (self.room(view, now) / u128::from(self.window)) as u64;
        Decision {
            verdict,
            limit: self.limit,
            remaining,
            next_after: if remaining >= self.limit { 0 } else { self.retry_after(view, now, remaining + 1) },
            reset_after: self.expires_at(view).saturating_sub(now),
        }
    }
}

impl Algorithm for SlidingCounter {
    type State = CounterState;

    fn peek(&self, state: &CounterState, now: u64, cost: u64) -> Decision {
        let mut view = self.view(state, now);
        let verdict = if cost == 0 { ChargeVerdict::Allowed { delay: 0 } } else { self.verdict(&view, now, cost) };
        if matches!(verdict, ChargeVerdict::Allowed { .. }) {
            view.current += cost;
        }
        self.decision(&view, now, verdict)
    }

    fn check(&self, state: &mut CounterState, now: u64, cost: u64) -> Decision {
        if cost == 0 {
            return self.peek(state, now, 0);
        }
        let mut view = self.view(state, now);
        let verdict = self.verdict(&view, now, cost);
        if matches!(verdict, ChargeVerdict::Allowed { .. }) {
            view.current += cost;
        }
        if view.current > 0 || view.previous > 0 {
            *state = view;
        }
        self.decision(&view, now, verdict)
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
        *state = view.with_usage(WindowUsage::from_total(view.usage().total() + fits, self.limit));
        cost - fits
    }

    fn refund(&self, state: &mut CounterState, now: u64, charged: &Charged, amount: u64) {
        let mut view = self.view(state, now);
        let amount = amount.min(charged.cost);
        if view.start == charged.mark {
            view = view.with_usage(WindowUsage::from_total(view.usage().total().saturating_sub(amount), self.limit));
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
            // The debt is the newest part of the usage, the previous window the oldest.
            let total = view.usage().total();
            let previous = view.previous.saturating_sub(amount.saturating_sub(total));
            *state = CounterState { previous, ..view }
                .with_usage(WindowUsage::from_total(total.saturating_sub(amount), self.limit));
        }
    }

    fn charged(&self, state: &CounterState, now: u64, cost: u64) -> Charged {
        Charged { at: now, cost, mark: state.start, part: 0 }
    }

    fn expires_at(&self, state: &CounterState) -> u64 {
        let windows = match (state.usage().windows_until_paid(), state.previous) {
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

    fn state_with_used(&self, used: u64, now: u64) -> CounterState {
        CounterState { current: used.min(self.limit), ..self.view(&CounterState::default(), now) }
    }
}
