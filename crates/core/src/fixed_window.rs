use crate::algorithm::{Algorithm, Charged};
use crate::decision::{Decision, Verdict};
use crate::quota::{AlgorithmKind, Quota};
use crate::tick::Tick;

/// At most `limit` in each window aligned to the clock.
///
/// Reset times are predictable, and up to twice the limit can pass within two
/// ticks around a boundary. Choose it for reports and internal tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    limit: u64,
    window: u64,
}

/// One key's count in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowState {
    /// When the window began.
    pub start: u64,
    /// How long it lasts; 0 if there never was one.
    pub window: u64,
    /// What was charged in it.
    pub used: u64,
}

impl WindowState {
    /// What is used at `now`, by the window that it was counted in.
    #[must_use]
    pub fn used_at(&self, now: u64) -> u64 {
        if now < self.start.saturating_add(self.window) { self.used } else { 0 }
    }
}

impl FixedWindow {
    /// Compiles a fixed window quota; `None` for other quotas.
    #[must_use]
    pub fn new(quota: &Quota, tick: Tick) -> Option<FixedWindow> {
        (quota.kind() == AlgorithmKind::FixedWindow)
            .then(|| FixedWindow { limit: quota.amount(), window: quota.period_ns() / tick.ns() })
    }

    /// The state as it counts at `now`, in a window of this quota's length.
    fn view(&self, state: &WindowState, now: u64) -> WindowState {
        let begun = now - now % self.window;
        let used = state.used.min(self.limit);
        let fresh = WindowState { start: begun, window: self.window, used: 0 };
        if state.window == 0 {
            return fresh;
        }
        if state.window != self.window {
            return WindowState { used: state.used_at(now).min(self.limit), ..fresh };
        }
        // A window that has not begun yet stays in force: the clock went back, and what was
        // used before it is forgotten. It is never further away than the next boundary.
        let start = state.start.min(begun.saturating_add(self.window));
        if start < begun { fresh } else { WindowState { start, used, ..fresh } }
    }

    fn answer(&self, view: &WindowState, now: u64, verdict: Verdict) -> Decision {
        let reset_after = if view.used == 0 { 0 } else { self.until_end(view, now) };
        Decision {
            verdict,
            limit: self.limit,
            remaining: self.limit - view.used,
            // All that was used comes back at once.
            next_after: reset_after,
            reset_after,
        }
    }

    fn until_end(&self, view: &WindowState, now: u64) -> u64 {
        view.start.saturating_add(self.window).saturating_sub(now)
    }

    fn verdict(&self, view: &WindowState, now: u64, cost: u64) -> Verdict {
        if cost > self.limit {
            Verdict::Impossible
        } else if cost <= self.limit - view.used {
            Verdict::Allowed { delay: 0 }
        } else {
            Verdict::Refused { retry_after: Some(self.until_end(view, now)) }
        }
    }
}

impl Algorithm for FixedWindow {
    type State = WindowState;

    fn look(&self, state: &WindowState, now: u64, cost: u64) -> Decision {
        let mut view = self.view(state, now);
        let verdict = if cost == 0 { Verdict::Allowed { delay: 0 } } else { self.verdict(&view, now, cost) };
        if matches!(verdict, Verdict::Allowed { .. }) {
            view.used += cost;
        }
        self.answer(&view, now, verdict)
    }

    fn check(&self, state: &mut WindowState, now: u64, cost: u64) -> Decision {
        if cost == 0 {
            return self.look(state, now, 0);
        }
        let mut view = self.view(state, now);
        let verdict = self.verdict(&view, now, cost);
        if matches!(verdict, Verdict::Allowed { .. }) {
            view.used += cost;
        }
        if view.used > 0 {
            *state = view;
        }
        self.answer(&view, now, verdict)
    }

    fn force(&self, state: &mut WindowState, now: u64, cost: u64) -> u64 {
        let mut view = self.view(state, now);
        let fits = cost.min(self.limit - view.used);
        view.used += fits;
        *state = view;
        cost - fits
    }

    fn give_back(&self, state: &mut WindowState, now: u64, charged: &Charged, amount: u64) {
        let view = self.view(state, now);
        if view.start == charged.mark && view.used > 0 {
            *state = WindowState { used: view.used.saturating_sub(amount.min(charged.cost)), ..view };
        }
    }

    fn credit(&self, state: &mut WindowState, now: u64, amount: u64) {
        let view = self.view(state, now);
        if view.used > 0 {
            *state = WindowState { used: view.used.saturating_sub(amount), ..view };
        }
    }

    fn charged(&self, state: &WindowState, now: u64, cost: u64) -> Charged {
        Charged { at: now, cost, mark: state.start, part: 0 }
    }

    fn untouched_at(&self, state: &WindowState) -> u64 {
        if state.used == 0 { 0 } else { state.start.saturating_add(state.window) }
    }

    fn refresh(&self, state: &mut WindowState, now: u64) {
        let view = self.view(state, now);
        if view.used > 0 {
            *state = view;
        }
    }

    fn carried(&self, used: u64, now: u64) -> WindowState {
        WindowState { used: used.min(self.limit), ..self.view(&WindowState::default(), now) }
    }
}
