/// What a run of many seeds met, so that it is known that it met something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) passed: u64,
    pub(super) refused: u64,
    pub(super) cached: u64,
    pub(super) fallbacks: u64,
    pub(super) joined: u64,
    pub(super) refunds: u64,
    pub(super) opened: u64,
    pub(super) dropped: u64,
    /// Keys whose admissions were held to the bound of their algorithm.
    pub(super) bounded: u64,
}

impl Met {
    pub(super) fn add(&mut self, other: &Met) {
        self.passed += other.passed;
        self.refused += other.refused;
        self.cached += other.cached;
        self.fallbacks += other.fallbacks;
        self.joined += other.joined;
        self.refunds += other.refunds;
        self.opened += other.opened;
        self.dropped += other.dropped;
        self.bounded += other.bounded;
    }

    pub(super) fn has_met_everything(&self) -> bool {
        let Met { passed, refused, cached, fallbacks, joined, refunds, opened, dropped, bounded } = *self;
        [passed, refused, cached, fallbacks, joined, refunds, opened, dropped, bounded].iter().all(|count| *count > 0)
    }
}
