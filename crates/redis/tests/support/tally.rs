use std::time::Duration;

use tokio::time::Instant;
use tollgate_store::Source;

use super::check::{Checked, MAX_LATENCY};
use super::panics::assert_no_panics;

/// The outcomes of many checks.
#[derive(Debug, Default)]
pub(crate) struct Tally(pub(crate) Vec<Checked>);

impl Tally {
    fn count(&self, which: impl Fn(&Checked) -> bool) -> u64 {
        self.0.iter().filter(|checked| which(checked)).count() as u64
    }

    pub(crate) fn admitted(&self) -> u64 {
        self.count(|checked| checked.passed)
    }

    /// Returns the number of checks admitted by the shared counters.
    pub(crate) fn exactly_admitted(&self) -> u64 {
        self.count(|checked| checked.passed && checked.source == Source::Exact)
    }

    /// Returns the number of checks that began within a span and were admitted by the shared counters.
    pub(crate) fn exactly_admitted_between(&self, from: Instant, to: Instant) -> u64 {
        self.count(|checked| {
            checked.passed && checked.source == Source::Exact && (from..to).contains(&checked.started_at)
        })
    }

    /// Returns the number of checks decided by the fallback.
    pub(crate) fn fallen_back(&self) -> u64 {
        self.count(|checked| checked.source == Source::Fallback)
    }

    /// Returns the number of checks admitted by the fallback.
    pub(crate) fn admitted_in_fallback(&self) -> u64 {
        self.count(|checked| checked.source == Source::Fallback && checked.passed)
    }

    pub(crate) fn longest(&self) -> Duration {
        self.0.iter().map(|checked| checked.took).max().unwrap_or_default()
    }

    /// Prints the figures. Asserts that every check was fast and no task panicked.
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
        assert!(self.longest() < MAX_LATENCY, "{what}: a check took {:?}", self.longest());
    }

    /// Asserts that the fallback refused every check as unavailable.
    pub(crate) fn assert_closed(&self) {
        let wrong = self.0.iter().find(|checked| checked.source == Source::Fallback && !checked.is_closed());
        assert!(wrong.is_none(), "{wrong:?}");
    }

    /// Asserts that the fallback admitted every check.
    pub(crate) fn assert_open(&self) {
        let wrong = self.0.iter().find(|checked| checked.source == Source::Fallback && !checked.passed);
        assert!(wrong.is_none(), "{wrong:?}");
    }
}
