use crate::algorithm::{Algorithm, Charged};
use crate::decision::{Decision, Verdict};
use crate::quota::{AlgorithmKind, Quota};
use crate::tick::Tick;
use crate::window::owed::Owed;

/// At most `limit` in each window aligned to the clock.
///
/// Reset times are predictable, and up to twice the limit can pass within two
/// ticks around a boundary. Choose it for reports and internal tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    limit: u64,
    window: u64,
    max_debt: u64,
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
    /// What is owed beyond it, and charged to later windows. Where there is any, `used` is the whole limit.
    pub debt: u64,
}

impl WindowState {
    fn owed(&self) -> Owed {
        Owed { used: self.used, debt: self.debt }
    }

    fn with(self, owed: Owed) -> WindowState {
        WindowState { used: owed.used, debt: owed.debt, ..self }
    }

    /// What counts at `now`, by windows of its own length.
    fn later(&self, now: u64) -> Owed {
        let passed = now.saturating_sub(self.start).checked_div(self.window);
        self.owed().later(passed.unwrap_or(0)).1
    }

    /// What is used at `now`, by the window that it was counted in or one that
    /// pays for it. What is owed beyond that is not among it.
    #[must_use]
    pub fn used_at(&self, now: u64) -> u64 {
        self.later(now).used
    }
}

impl FixedWindow {
    /// Compiles a fixed window quota; `None` for other quotas.
    #[must_use]
    pub fn new(quota: &Quota, tick: Tick) -> Option<FixedWindow> {
        let (limit, window, max_debt) = (quota.amount(), quota.period_ns() / tick.ns(), quota.max_debt());
        (quota.kind() == AlgorithmKind::FixedWindow).then_some(FixedWindow { limit, window, max_debt })
    }

    /// The state as it counts at `now`, in a window of this quota's length.
    fn view(&self, state: &WindowState, now: u64) -> WindowState {
        let begun = now - now % self.window;
        let fresh = WindowState { start: begun, window: self.window, used: 0, debt: 0 };
        if state.window == 0 {
            return fresh;
        }
        let under_own = |owed: Owed| owed.under(self.limit, self.max_debt);
        if state.window != self.window {
            return fresh.with(under_own(state.later(now)));
        }
        // A window that has not begun yet stays in force: the clock went back, and what was
        // used before it is forgotten. It is never further away than the next boundary.
        let start = state.start.min(begun.saturating_add(self.window));
        let passed = begun.saturating_sub(start) / self.window;
        WindowState { start: start.max(begun), ..fresh }.with(under_own(state.owed().later(passed).1))
    }

    fn answer(&self, view: &WindowState, now: u64, verdict: Verdict) -> Decision {
        Decision {
            verdict,
            limit: self.limit,
            remaining: self.limit - view.used,
            // All that was used comes back at once, where later windows have nothing to pay.
            next_after: if view.used == 0 { 0 } else { self.until_fits(view, now, self.limit - view.used + 1) },
            reset_after: self.untouched_at(view).saturating_sub(now),
        }
    }

    /// Until the window in which `cost`, which does not fit this one, fits beside what is owed.
    fn until_fits(&self, view: &WindowState, now: u64, cost: u64) -> u64 {
        let windows = (view.owed().all() + cost - self.limit).div_ceil(self.limit);
        view.start.saturating_add(windows.saturating_mul(self.window)).saturating_sub(now)
    }

    fn verdict(&self, view: &WindowState, now: u64, cost: u64) -> Verdict {
        if cost > self.limit {
            Verdict::Impossible
        } else if cost <= self.limit - view.used {
            Verdict::Allowed { delay: 0 }
        } else {
            Verdict::Refused { retry_after: Some(self.until_fits(view, now, cost)) }
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

    fn owe(&self, state: &mut WindowState, now: u64, cost: u64) -> u64 {
        let view = self.view(state, now);
        let fits = cost.min(self.limit + self.max_debt - view.owed().all());
        *state = view.with(Owed::of(view.owed().all() + fits, self.limit));
        cost - fits
    }

    fn give_back(&self, state: &mut WindowState, now: u64, charged: &Charged, amount: u64) {
        let view = self.view(state, now);
        if view.start == charged.mark && view.used > 0 {
            let left = view.owed().all().saturating_sub(amount.min(charged.cost));
            *state = view.with(Owed::of(left, self.limit));
        }
    }

    fn credit(&self, state: &mut WindowState, now: u64, amount: u64) {
        let view = self.view(state, now);
        if view.used > 0 {
            // The newest is what is owed.
            *state = view.with(Owed::of(view.owed().all().saturating_sub(amount), self.limit));
        }
    }

    fn charged(&self, state: &WindowState, now: u64, cost: u64) -> Charged {
        Charged { at: now, cost, mark: state.start, part: 0 }
    }

    fn untouched_at(&self, state: &WindowState) -> u64 {
        let windows = state.owed().windows();
        if windows == 0 { 0 } else { state.start.saturating_add(windows.saturating_mul(state.window)) }
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
