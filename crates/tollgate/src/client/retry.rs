//! Which requests may be sent again, when, and how many.

use std::time::Duration;

use http::{HeaderMap, Method, Response, StatusCode};

use super::pace::AnswerKind;
use super::random::JitterSource;

/// A retry costs as much as ten first attempts earn: retries are at most a tenth of the requests.
const RETRY_COST: u32 = 10;

/// The most that a budget holds: a hundred retries.
const MAX_BALANCE: u32 = 100 * RETRY_COST;

/// The balance at the beginning: ten retries, so that a program that sends few requests can retry.
const FIRST_BALANCE: u32 = 10 * RETRY_COST;

/// The retries that one key may make.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryBudget {
    balance: u32,
}

impl RetryBudget {
    pub(super) fn new() -> RetryBudget {
        RetryBudget { balance: FIRST_BALANCE }
    }

    /// Earns a part of a retry with a first attempt.
    pub(super) fn deposit(&mut self) {
        self.balance = (self.balance + 1).min(MAX_BALANCE);
    }

    /// Takes a retry; `false` if there is none left.
    pub(super) fn withdraw(&mut self) -> bool {
        let left = self.balance.checked_sub(RETRY_COST);
        self.balance = left.unwrap_or(self.balance);
        left.is_some()
    }
}

/// Returns a random wait before a retry: up to `base * 2^attempt`, at most `longest`. All of it is random, so that
/// clients that failed together do not return together.
pub(super) fn backoff(attempt: u32, base: Duration, longest: Duration, random: &mut JitterSource) -> Duration {
    let most = base.saturating_mul(2_u32.saturating_pow(attempt)).min(longest);
    Duration::from_nanos(random.up_to(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX)))
}

/// Whether a request may be sent twice without a second effect: by its method, or because it has a key by which the
/// server recognises it.
pub(super) fn is_idempotent(method: &Method, headers: &HeaderMap) -> bool {
    method.is_idempotent() || headers.contains_key("idempotency-key")
}

/// Returns what a response says about the server: a refusal has status 429 or 503, or the gRPC status of an exhausted
/// resource or an unavailable service.
pub(super) fn answer_of<B>(response: &Response<B>) -> AnswerKind {
    let is_refusal = match response.status() {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => true,
        // A gRPC refusal has no body, and its status among the header fields.
        StatusCode::OK => {
            response.headers().get("grpc-status").is_some_and(|status| matches!(status.as_bytes(), b"8" | b"14"))
        }
        _ => false,
    };
    if is_refusal { AnswerKind::Refused } else { AnswerKind::Accepted }
}

/// Whether a later attempt may succeed.
pub(super) fn is_transient(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_permits_a_tenth_of_the_requests_as_retries() {
        let mut budget = RetryBudget::new();
        assert_eq!((0..100).filter(|_| budget.withdraw()).count(), 10);
        (0..1_000).for_each(|_| budget.deposit());
        assert_eq!((0..1_000).filter(|_| budget.withdraw()).count(), 100);
        (0..9).for_each(|_| budget.deposit());
        assert!(!budget.withdraw());
        budget.deposit();
        assert!(budget.withdraw());
    }

    #[test]
    fn backoff_is_random_from_zero_to_a_bound_that_doubles() {
        let mut random = JitterSource::seeded(3);
        let (base, longest) = (Duration::from_millis(100), Duration::from_secs(1));
        for (attempt, most_ms) in [(0, 100), (1, 200), (3, 800), (4, 1_000), (40, 1_000)] {
            let waits: Vec<_> = (0..1_000).map(|_| backoff(attempt, base, longest, &mut random)).collect();
            let most = Duration::from_millis(most_ms);
            let (low, high) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
            assert!(*high <= most && *high > most * 9 / 10 && *low < most / 10, "{attempt}: {low:?} {high:?}");
        }
    }

    #[test]
    fn idempotent_methods_and_keys_may_be_retried() {
        let none = HeaderMap::new();
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS, Method::TRACE] {
            assert!(is_idempotent(&method, &none), "{method}");
        }
        assert!(!is_idempotent(&Method::POST, &none) && !is_idempotent(&Method::PATCH, &none));
        let keyed = [(http::HeaderName::from_static("idempotency-key"), http::HeaderValue::from_static("a"))];
        assert!(is_idempotent(&Method::POST, &keyed.into_iter().collect()));
    }

    #[test]
    fn refusals_are_known_by_their_status() {
        let answer = |status: u16, grpc: Option<&str>| {
            let mut response = Response::builder().status(status);
            if let Some(grpc) = grpc {
                response = response.header("grpc-status", grpc);
            }
            answer_of(&response.body(()).unwrap())
        };
        for refused in [(429, None), (503, None), (200, Some("8")), (200, Some("14"))] {
            assert_eq!(answer(refused.0, refused.1), AnswerKind::Refused, "{refused:?}");
        }
        for accepted in [(200, None), (500, None), (404, None), (200, Some("0")), (200, Some("7")), (200, Some("88"))] {
            assert_eq!(answer(accepted.0, accepted.1), AnswerKind::Accepted, "{accepted:?}");
        }
    }
}
