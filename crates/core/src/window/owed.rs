//! What a window owes beyond its limit, and how later windows pay it.

/// What counts in a window: never more than a limit, and what is owed beyond it.
///
/// Where anything is owed, `used` is the whole limit of the quota that wrote
/// it, so that what later windows pay is known without that quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owed {
    pub(crate) used: u64,
    pub(crate) debt: u64,
}

impl Owed {
    /// What counts `windows` later, and what counted in the window before that one.
    pub(crate) fn later(self, windows: u64) -> (u64, Owed) {
        if windows == 0 {
            return (0, self);
        }
        let limit = self.used;
        let all = u128::from(self.used) + u128::from(self.debt);
        let paid = u128::from(limit) * u128::from(windows);
        let before = all.saturating_sub(paid - u128::from(limit)).min(u128::from(limit)) as u64;
        let left = all.saturating_sub(paid);
        let used = left.min(u128::from(limit)) as u64;
        (before, Owed { used, debt: (left - u128::from(used)) as u64 })
    }

    /// Under a quota of this limit: what is owed fills the limit, and no more than `max_debt` stays.
    pub(crate) fn under(self, limit: u64, max_debt: u64) -> Owed {
        let used = self.used.min(limit);
        let filled = self.debt.min(limit - used);
        Owed { used: used + filled, debt: (self.debt - filled).min(max_debt) }
    }

    /// How many windows it takes until nothing of it counts: this one and those that pay.
    pub(crate) fn windows(self) -> u64 {
        if self.used == 0 { 0 } else { self.all().div_ceil(self.used) }
    }

    pub(crate) fn all(self) -> u64 {
        self.used.saturating_add(self.debt)
    }

    /// With so much of both in all.
    pub(crate) fn of(all: u64, limit: u64) -> Owed {
        let used = all.min(limit);
        Owed { used, debt: all - used }
    }
}
