use crate::algorithm::{Algorithm, Charged};
use crate::decision::{ChargeVerdict, Decision};
use crate::quota::{AlgorithmKind, Quota};
use crate::tick::Tick;
use crate::window::usage::WindowUsage;

/// A fixed window: at most `limit` in each window, aligned to the clock.
///
/// Reset times are predictable, but up to twice the limit can pass within two ticks around a boundary. Suitable for
/// reports and internal tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    limit: u64,
    window: u64,
    max_debt: u64,
}

/// The count of one key in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowState {
    /// The start of the window.
    pub start: u64,
    /// The length of the window; 0 in the state of an unused key.
    pub window: u64,
    /// The amount charged in the window.
    pub used: u64,
    /// The debt beyond `used`, which later windows pay. If it is not 0, `used` is the whole limit.
    pub debt: u64,
}

impl WindowState {
    fn usage(&self) -> WindowUsage {
        WindowUsage { used: self.used, debt: self.debt }
    }

    fn with_usage(self, usage: WindowUsage) -> WindowState {
        WindowState { used: usage.used, debt: usage.debt, ..self }
    }

    /// Returns the usage at `now`, in windows of the state's own length.
    fn usage_at(&self, now: u64) -> WindowUsage {
        let passed = now.saturating_sub(self.start).checked_div(self.window);
        self.usage().after_windows(passed.unwrap_or(0)).1
    }

    /// Returns the amount used at `now`, in the window that counted it or in one that pays its debt. The remaining debt
    /// is not included.
    #[must_use]
    pub fn used_at(&self, now: u64) -> u64 {
        self.usage_at(now).used
    }
}

impl FixedWindow {
    /// Compiles a fixed window quota; `None` for other quotas.
    #[must_use]
    pub fn new(quota: &Quota, tick: Tick) -> Option<FixedWindow> {
        let (limit, window, max_debt) = (quota.amount(), quota.period_ns() / tick.ns(), quota.max_debt());
        (quota.kind() == AlgorithmKind::FixedWindow).then_some(FixedWindow { limit, window, max_debt })
    }

    /// Returns the state at `now`, in a window of this quota's length.
    fn view(&self, state: &WindowState, now: u64) -> WindowState {
        let window_start = now - now % self.window;
        let fresh = WindowState { start: window_start, window: self.window, used: 0, debt: 0 };
        if state.window == 0 {
            return fresh;
        }
        let to_own = |usage: WindowUsage| usage.converted_to(self.limit, self.max_debt);
        if state.window != self.window {
            return fresh.with_usage(to_own(state.usage_at(now)));
        }
        // A window that has not window_start yet stays active: the clock went back, and the usage before that window is
        // already dropped. Its start is capped at the next boundary.
        let start = state.start.min(window_start.saturating_add(self.window));
        let passed = window_start.saturating_sub(start) / self.window;
        WindowState { start: start.max(window_start), ..fresh }
            .with_usage(to_own(state.usage().after_windows(passed).1))
    }

    fn decision(&self, view: &WindowState, now: u64, verdict: ChargeVerdict) -> Decision {
        Decision {
            verdict,
            limit: self.limit,
            remaining: self.limit - view.used,
            // The whole used amount is released at once, unless later windows have a debt to pay.
            next_after: if view.used == 0 { 0 } else { self.until_fits(view, now, self.limit - view.used + 1) },
            reset_after: self.expires_at(view).saturating_sub(now),
        }
    }

    /// Returns the time until the window in which `cost`, which does not fit in this one, fits beside the debt.
    fn until_fits(&self, view: &WindowState, now: u64, cost: u64) -> u64 {
        let windows = (view.usage().total() + cost - self.limit).div_ceil(self.limit);
        view.start.saturating_add(windows.saturating_mul(self.window)).saturating_sub(now)
    }

    fn verdict(&self, view: &WindowState, now: u64, cost: u64) -> ChargeVerdict {
        if cost > self.limit {
            ChargeVerdict::Impossible
        } else if cost <= self.limit - view.used {
            ChargeVerdict::Allowed { delay: 0 }
        } else {
            ChargeVerdict::Refused { retry_after: Some(self.until_fits(view, now, cost)) }
        }
    }
}

impl Algorithm for FixedWindow {
    type State = WindowState;

    fn peek(&self, state: &WindowState, now: u64, cost: u64) -> Decision {
        let mut view = self.view(state, now);
        let verdict = if cost == 0 { ChargeVerdict::Allowed { delay: 0 } } else { self.verdict(&view, now, cost) };
        if matches!(verdict, ChargeVerdict::Allowed { .. }) {
            view.used += cost;
        }
        self.decision(&view, now, verdict)
    }

    fn check(&self, state: &mut WindowState, now: u64, cost: u64) -> Decision {
        if cost == 0 {
            return self.peek(state, now, 0);
        }
        let mut view = self.view(state, now);
        let verdict = self.verdict(&view, now, cost);
        if matches!(verdict, ChargeVerdict::Allowed { .. }) {
            view.used += cost;
        }
        if view.used > 0 {
            *state = view;
        }
        self.decision(&view, now, verdict)
    }

    fn force(&self, state: &mut WindowState, now: u64, cost: u64) -> u64 {
        let mut view = self.view(state, now);
        let fits = cost.min(self.limit - view.used);
        view.used += fits;
        *state = view;
        cost - fits
    }

    fn owe(&self, state: &mut WindowState, now: u64, cost: u64) -> u64 {
        let view = self.view(state, now);
        let fits = cost.min(self.limit + self.max_debt - view.usage().total());
        *state = view.with_usage(WindowUsage::from_total(view.usage().total() + fits, self.limit));
        cost - fits
    }

    fn refund(&self, state: &mut WindowState, now: u64, charged: &Charged, amount: u64) {
        let view = self.view(state, now);
        if view.start == charged.mark && view.used > 0 {
            let left = view.usage().total().saturating_sub(amount.min(charged.cost));
            *state = view.with_usage(WindowUsage::from_total(left, self.limit));
        }
    }

    fn credit(&self, state: &mut WindowState, now: u64, amount: u64) {
        let view = self.view(state, now);
        if view.used > 0 {
            // The debt is the newest part of the usage.
            *state = view.with_usage(WindowUsage::from_total(view.usage().total().saturating_sub(amount), self.limit));
        }
    }

    fn charged(&self, state: &WindowState, now: u64, cost: u64) -> Charged {
        Charged { at: now, cost, mark: state.start, part: 0 }
    }

    fn expires_at(&self, state: &WindowState) -> u64 {
        let windows = state.usage().windows_until_paid();
        if windows == 0 { 0 } else { state.start.saturating_add(windows.saturating_mul(state.window)) }
    }

    fn refresh(&self, state: &mut WindowState, now: u64) {
        let view = self.view(state, now);
        if view.used > 0 {
            *state = view;
        }
    }

    fn state_with_used(&self, used: u64, now: u64) -> WindowState {
        WindowState { used: used.min(self.limit), ..self.view(&WindowState::default(), now) }
    }
}
