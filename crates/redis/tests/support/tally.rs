use std::time::Duration;

use tokio::time::Instant;
use tollgate_store::Source;

use super::check::{Checked, PROMPTLY};
use super::panics::assert_no_panics;

/// What many checks said.
#[derive(Debug, Default)]
pub(crate) struct Tally(pub(crate) Vec<Checked>);

impl Tally {
    fn count(&self, which: impl Fn(&Checked) -> bool) -> u64 {
        self.0.iter().filter(|checked| which(checked)).count() as u64
    }

    pub(crate) fn admitted(&self) -> u64 {
        self.count(|checked| checked.passed)
    }

    /// Admitted by the counters themselves.
    pub(crate) fn exactly_admitted(&self) -> u64 {
        self.count(|checked| checked.passed && checked.source == Source::Exact)
    }

    /// Admitted by the counters themselves, to who asked within a span.
    pub(crate) fn exactly_admitted_between(&self, from: Instant, to: Instant) -> u64 {
        self.count(|checked| {
            checked.passed && checked.source == Source::Exact && (from..to).contains(&checked.asked_at)
        })
    }

    /// Checks that the counters did not answer.
    pub(crate) fn fallen_back(&self) -> u64 {
        self.count(|checked| checked.source == Source::Fallback)
    }

    /// Those of them that passed.
    pub(crate) fn admitted_in_fallback(&self) -> u64 {
        self.count(|checked| checked.source == Source::Fallback && checked.passed)
    }

    pub(crate) fn longest(&self) -> Duration {
        self.0.iter().map(|checked| checked.took).max().unwrap_or_default()
    }

    /// Every answer came promptly, and nothing panicked. What it came to is printed.
    pub(crate) fn report(&self, what: &str) {
        println!(
            "{what}: {} checks, {} admitted exactly, {} fell back of which {} passed, longest {:?}",
            self.0.len(),
            self.exactly_admitted(),
            self.fallen_back(),
            self.admitted_in_fallback(),
            self.longest(),
        );
        assert_no_panics();
        assert!(self.longest() < PROMPTLY, "{what}: an answer after {:?}", self.longest());
    }

    /// While the store failed, everything was refused, as the store's trouble.
    pub(crate) fn assert_closed(&self) {
        let wrong = self.0.iter().find(|checked| checked.source == Source::Fallback && !checked.is_closed());
        assert!(wrong.is_none(), "{wrong:?}");
    }

    /// While the store failed, everything passed.
    pub(crate) fn assert_open(&self) {
        let wrong = self.0.iter().find(|checked| checked.source == Source::Fallback && !checked.passed);
        assert!(wrong.is_none(), "{wrong:?}");
    }
}
