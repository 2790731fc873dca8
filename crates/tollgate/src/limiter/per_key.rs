use std::fmt;
use std::time::Duration;

use tollgate_policy::{Request, rule};
use tollgate_store::{Clock, RealClock, Timer};

use super::{Limiter, LimiterError};
use crate::permit::Permit;
use crate::verdict::{Refused, Verdict};

/// The name of the identity that carries the key.
const IDENTITY: &str = "key";

/// The name of the only rule.
const RULE: &str = "per-key";

/// A limiter with one limit and no rules: it counts by keys that the program names.
///
/// [`Limiter::per_key`] creates one. Cloning is cheap, and all clones share the same counters.
#[derive(Clone)]
pub struct KeyLimiter {
    limiter: Limiter,
}

impl Limiter {
    /// Creates a limiter for one limit, counted by keys that the program names.
    ///
    /// `limit` is a rate such as `100/min`, `10 per 30s` or `60/min burst 100`, enforced by a token bucket.
    ///
    /// ```
    /// use tollgate::Limiter;
    ///
    /// let limiter = Limiter::per_key("100/min")?;
    /// assert!(limiter.check("alice").is_allowed());
    /// assert_eq!(limiter.check("bob").remaining(), Some(99));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// For another algorithm, several limits, tiers or conditions use [`Limiter::builder`] or a policy file.
    pub fn per_key(limit: &str) -> Result<KeyLimiter, LimiterError> {
        Limiter::per_key_with_clock(limit, RealClock::new())
    }

    /// Like [`Limiter::per_key`], with another clock: a [`ManualClock`](crate::ManualClock) in tests.
    pub fn per_key_with_clock(limit: &str, clock: impl Clock + 'static) -> Result<KeyLimiter, LimiterError> {
        let limiter = Limiter::builder().rule(rule(RULE).per(IDENTITY).limit(limit)).build_with_clock(clock)?;
        Ok(KeyLimiter { limiter })
    }
}

impl KeyLimiter {
    /// Decides one request of a key, and charges it if allowed.
    #[must_use]
    pub fn check(&self, key: &str) -> Verdict {
        self.check_cost(key, 1)
    }

    /// Decides a request of a key that costs `cost`, and charges it if allowed.
    #[must_use]
    pub fn check_cost(&self, key: &str, cost: u64) -> Verdict {
        self.limiter.check(&Request { cost, ..request(&[(IDENTITY, key)]) })
    }

    /// Decides one request of a key without charging it.
    #[must_use]
    pub fn peek(&self, key: &str) -> Verdict {
        self.limiter.peek(&request(&[(IDENTITY, key)]))
    }

    /// Decides and charges like [`check`](KeyLimiter::check). The permit refunds the charge, or settles it to the true
    /// cost.
    pub fn permit(&self, key: &str) -> Result<Permit, Refused> {
        self.limiter.permit(&request(&[(IDENTITY, key)]))
    }

    /// Waits until a request of a key is allowed, for at most `max_wait`; see
    /// [`AsyncLimiter::acquire`](super::AsyncLimiter::acquire).
    pub async fn acquire<T: Timer>(&self, key: &str, max_wait: Duration, timer: T) -> Result<Permit, Refused> {
        self.limiter.acquire(&request(&[(IDENTITY, key)]), max_wait, timer).await
    }

    /// Returns the limiter behind it, with its only rule `per-key`: for the admin API, statistics and metrics.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }
}

fn request<'a>(identities: &'a [(&'a str, &'a str)]) -> Request<'a> {
    Request { identities, ..Request::from_peer(None) }
}

impl fmt::Debug for KeyLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLimiter").finish_non_exhaustive()
    }
}
