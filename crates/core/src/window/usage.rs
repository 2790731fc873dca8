//! The usage of a window, with the debt beyond its limit that later windows pay.

/// The usage that counts in a window: an amount of at most the limit, and a debt beyond it.
///
/// If there is a debt, `used` is the whole limit of the quota that wrote it. So later payments can be computed without
/// that quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowUsage {
    pub(crate) used: u64,
    pub(crate) debt: u64,
}

impl WindowUsage {
    /// Returns the usage `windows` later, and the amount that counted in the window before that one.
    pub(crate) fn after_windows(self, windows: u64) -> (u64, WindowUsage) {
        if windows == 0 {
            return (0, self);
        }
        let limit = self.used;
        let total = u128::from(self.used) + u128::from(self.debt);
        let paid = u128::from(limit) * u128::from(windows);
        let before = total.saturating_sub(paid - u128::from(limit)).min(u128::from(limit)) as u64;
        let left = total.saturating_sub(paid);
        let used = left.min(u128::from(limit)) as u64;
        (before, WindowUsage { used, debt: (left - u128::from(used)) as u64 })
    }

    /// Converts the usage to a quota: the debt first fills the limit, and the rest is capped at `max_debt`.
    pub(crate) fn converted_to(self, limit: u64, max_debt: u64) -> WindowUsage {
        let used = self.used.min(limit);
        let filled = self.debt.min(limit - used);
        WindowUsage { used: used + filled, debt: (self.debt - filled).min(max_debt) }
    }

    /// Returns the number of windows until nothing counts any more: this one and those that pay the debt.
    pub(crate) fn windows_until_paid(self) -> u64 {
        if self.used == 0 { 0 } else { self.total().div_ceil(self.used) }
    }

    pub(crate) fn total(self) -> u64 {
        self.used.saturating_add(self.debt)
    }

    /// Splits a total into an amount of at most `limit` and a debt.
    pub(crate) fn from_total(total: u64, limit: u64) -> WindowUsage {
        let used = total.min(limit);
        WindowUsage { used, debt: total - used }
    }
}
