//! Shared parts of the property tests: quotas, traces, and oracles to compare decisions with.
//!
//! The oracles implement each algorithm in the simplest way, with fractions of big integers or lists, and use nothing
//! of the crate but its types.
// Every test file is a separate crate and uses a part of this.
#![allow(dead_code, clippy::unwrap_used)]

pub(crate) mod oracles;
pub(crate) mod quotas;
pub(crate) mod traces;

use proptest::test_runner::{Config, FileFailurePersistence, TestCaseResult};
use tollgate_core::{
    Algorithm, AlgorithmKind, Bucket, Concurrency, FixedWindow, Quota, SlidingCounter, SlidingLog, Tick,
};

/// Returns a configuration with this number of cases; failures are shrunk and stored in a file next to the test.
pub(crate) fn cases(cases: u32) -> Config {
    let kept = FileFailurePersistence::WithSource("proptest-regressions");
    Config {
        cases,
        failure_persistence: Some(Box::new(kept)),
        max_shrink_iters: 20_000,
        max_global_rejects: 1 << 20,
        ..Config::default()
    }
}

/// A property that holds for every algorithm.
pub(crate) trait Property {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq;
}

/// Compiles `quota` for its algorithm and tests the property on it.
pub(crate) fn for_algorithm_of(quota: &Quota, tick: Tick, property: &impl Property) -> TestCaseResult {
    match quota.kind() {
        AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => {
            property.holds(&Bucket::new(quota, tick).unwrap())
        }
        AlgorithmKind::FixedWindow => property.holds(&FixedWindow::new(quota, tick).unwrap()),
        AlgorithmKind::SlidingWindowCounter => property.holds(&SlidingCounter::new(quota, tick).unwrap()),
        AlgorithmKind::SlidingWindowLog => property.holds(&SlidingLog::new(quota, tick).unwrap()),
        AlgorithmKind::Concurrency => property.holds(&Concurrency::new(quota, tick).unwrap()),
    }
}
