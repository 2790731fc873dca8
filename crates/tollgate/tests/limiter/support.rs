use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tollgate::policy::model::{MemorySettings, StoreSettings};
use tollgate::policy::{Policy, RuleBuilder};
use tollgate::{Limiter, LimiterBuilder, ManualClock, Request};

pub(crate) const S_NS: u64 = 1_000_000_000;

pub(crate) type Manual = Limiter;

pub(crate) fn clock() -> ManualClock {
    ManualClock::at(1_800_000_000 * S_NS)
}

pub(crate) fn built(limiter: LimiterBuilder, clock: &ManualClock) -> Manual {
    limiter.build_with_clock(clock.clone()).unwrap()
}

/// A store that is made quickly, for tests that make thousands.
pub(crate) fn small(policy: &mut Policy) {
    policy.store = StoreSettings::Memory(MemorySettings { entries: 10_000, ..MemorySettings::default() });
}

/// A limiter with one rule.
pub(crate) fn one(rule: RuleBuilder, clock: &ManualClock) -> Manual {
    built(Limiter::builder().rule(rule), clock)
}

/// A request of which the user is known, or nothing at all.
pub(crate) fn from<'a>(identities: &'a [(&'a str, &'a str)]) -> Request<'a> {
    Request { identities, ..Request::from_peer(None) }
}

/// A request without identities.
pub(crate) fn any() -> Request<'static> {
    Request::from_peer(None)
}

/// The same, costing so much.
pub(crate) fn costing(cost: u64) -> Request<'static> {
    Request { cost, ..any() }
}

/// What remains of each rule.
pub(crate) fn remaining(limiter: &Manual) -> Vec<u64> {
    limiter.peek(&costing(0)).states().iter().map(|state| state.decision.remaining).collect()
}

/// The result of a future over a store in memory, which waits for nothing.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("a store in memory does not wait"),
    }
}
