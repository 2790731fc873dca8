use std::error::Error;
use std::fmt;
use std::ops::Deref;

use super::{Action, Verdict};

/// The error of a request that may not pass. It dereferences to the [`Verdict`].
///
/// [`Verdict::into_result`], `permit` and `acquire` return it, so that `?` works. With the feature `axum` it is a
/// response: a handler that returns it answers with the status, the problem and the RateLimit fields.
///
/// ```
/// use tollgate::{Limiter, Refused};
///
/// let logins = Limiter::per_key("1/min")?;
/// let login = |user: &str| -> Result<(), Refused> {
///     logins.check(user).into_result()?;
///     Ok(())
/// };
/// assert!(login("alice").is_ok());
/// let refused = login("alice").unwrap_err();
/// assert_eq!(refused.status(), 429);
/// assert_eq!(refused.to_string(), "refused by rule `per-key`: retry after 60 s");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Refused(Verdict);

impl Refused {
    /// Wraps the verdict of a request that is allowed after a delay which exceeds the maximum wait.
    pub(crate) fn too_slow(mut verdict: Verdict, max_wait_ns: u64) -> Refused {
        verdict.reject_delay(max_wait_ns);
        Refused(verdict)
    }

    /// Returns the verdict.
    #[must_use]
    pub fn into_verdict(self) -> Verdict {
        self.0
    }
}

impl Verdict {
    /// Returns the verdict if the request may pass, and else the refusal as an error, for `?`.
    pub fn into_result(self) -> Result<Verdict, Refused> {
        if self.is_allowed() { Ok(self) } else { Err(Refused(self)) }
    }
}

impl Deref for Refused {
    type Target = Verdict;

    fn deref(&self) -> &Verdict {
        &self.0
    }
}

impl From<Refused> for Verdict {
    fn from(refused: Refused) -> Verdict {
        refused.0
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = &self.0;
        let reason = match verdict.action() {
            Action::Deny if verdict.is_unauthorized() => return f.write_str("the access token is not usable"),
            Action::Deny => "denied",
            Action::Block => "blocked",
            Action::Reject if verdict.is_uncounted() => return f.write_str("the store could not count the request"),
            // A refusal has no verdict that allows the request.
            Action::Reject | Action::Allow | Action::Warn | Action::Delay => "refused",
        };
        f.write_str(reason)?;
        if let Some(rule) = verdict.rule() {
            write!(f, " by rule `{rule}`")?;
        }
        if verdict.is_impossible() {
            f.write_str(": the cost exceeds the limit")?;
        } else if let Some(wait) = verdict.retry_after() {
            write!(f, ": retry after {} s", seconds_up(wait))?;
        }
        Ok(())
    }
}

fn seconds_up(span: std::time::Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Refused").field(&self.0).finish()
    }
}

impl Error for Refused {}
