//! Classes of endpoints: reads, writes, and endpoints that authenticate.

use crate::tally::endpoint_index::{EndpointIndex, EndpointName, PLACEHOLDER};

/// A class of endpoints, which gets its own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointClass {
    /// All requests of no other class: GET, HEAD, OPTIONS, and unknown methods.
    Reads,
    /// Requests that write: POST, PUT, PATCH and DELETE.
    Writes,
    /// Requests that try a secret: logins, tokens, password resets.
    Auth,
}

/// The number of classes.
pub(super) const CLASS_COUNT: usize = 3;

/// The methods of [`EndpointClass::Writes`].
pub(super) const WRITE_METHODS: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];

/// The method of [`EndpointClass::Auth`].
pub(super) const AUTH_METHOD: &str = "POST";

/// Words of paths that authenticate, in lower case.
const AUTH_WORDS: [&str; 15] = [
    "login",
    "signin",
    "sign-in",
    "log-in",
    "auth",
    "authenticate",
    "oauth",
    "token",
    "password",
    "reset-password",
    "forgot-password",
    "otp",
    "2fa",
    "mfa",
    "wp-login.php",
];

/// The fewest requests from which the statuses of an endpoint are conclusive.
const MIN_REQUESTS: u64 = 20;

/// An endpoint of which at least one write in this many is answered by 401 or 403 authenticates.
const DENIED_SHARE: u64 = 5;

/// The most endpoints of the class `Auth`, so that the rule stays readable.
const MAX_AUTH_PATHS: usize = 40;

impl EndpointClass {
    /// All classes.
    pub const ALL: [EndpointClass; CLASS_COUNT] = [EndpointClass::Reads, EndpointClass::Writes, EndpointClass::Auth];

    /// Returns the name of the class in reports and rules.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EndpointClass::Reads => "reads",
            EndpointClass::Writes => "writes",
            EndpointClass::Auth => "auth",
        }
    }
}

/// The classes of all endpoints of a log.
pub(super) struct EndpointClasses {
    by_endpoint: Vec<EndpointClass>,
    /// The methods and paths of the class `Auth`, those with the most requests first.
    pub(super) auth: Vec<EndpointName>,
}

/// What is counted for each endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EndpointTally {
    pub(super) requests: u64,
    /// Requests that were answered by 401 or 403.
    pub(super) denied: u64,
}

impl EndpointClasses {
    pub(super) fn of(endpoints: &EndpointIndex, tallies: &[EndpointTally]) -> EndpointClasses {
        let mut auth: Vec<(u32, &EndpointTally)> =
            (0..).zip(tallies).filter(|(at, tally)| is_auth(endpoints.name(*at), tally)).collect();
        auth.sort_by_key(|(at, tally)| (std::cmp::Reverse(tally.requests), *at));
        auth.truncate(MAX_AUTH_PATHS);
        let mut by_endpoint: Vec<EndpointClass> =
            (0..tallies.len()).map(|at| by_method(&endpoints.name(crate::tally::to_u32(at)).method)).collect();
        for (at, _) in &auth {
            by_endpoint[*at as usize] = EndpointClass::Auth;
        }
        let auth = auth.into_iter().map(|(at, _)| endpoints.name(at).clone()).collect();
        EndpointClasses { by_endpoint, auth }
    }

    #[inline]
    pub(super) fn class(&self, endpoint: u32) -> EndpointClass {
        self.by_endpoint[endpoint as usize]
    }
}

fn by_method(method: &str) -> EndpointClass {
    if WRITE_METHODS.contains(&method) { EndpointClass::Writes } else { EndpointClass::Reads }
}

/// Whether an endpoint authenticates: a POST whose path says so, or that is often answered by 401 or 403.
fn is_auth(endpoint: &EndpointName, tally: &EndpointTally) -> bool {
    if &*endpoint.method != AUTH_METHOD || tally.requests == 0 || !is_pattern(&endpoint.path) {
        return false;
    }
    let last = endpoint.path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let is_often_denied = tally.requests >= MIN_REQUESTS && tally.denied * DENIED_SHARE >= tally.requests;
    AUTH_WORDS.contains(&last.as_str()) || is_often_denied
}

/// Whether a path, as it is, is a pattern of a policy that matches that path.
fn is_pattern(path: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '~');
    path.starts_with('/') && path.replace(PLACEHOLDER, "").chars().all(is_plain) && !path.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_from_methods_paths_and_statuses() {
        let mut endpoints = EndpointIndex::default();
        let mut tallies = vec![EndpointTally::default()];
        let mut add = |method, target, requests, denied| {
            let number = endpoints.number(method, target);
            tallies.push(EndpointTally { requests, denied });
            number
        };
        let expected = [
            (add("GET", "/login", 100, 0), EndpointClass::Reads),
            (add("POST", "/v1/Login", 1, 0), EndpointClass::Auth),
            (add("POST", "/enter", 100, 20), EndpointClass::Auth),
            (add("POST", "/orders", 100, 19), EndpointClass::Writes),
            (add("POST", "/rare", 19, 19), EndpointClass::Writes),
            (add("DELETE", "/orders/7", 100, 100), EndpointClass::Writes),
            (add("", "", 5, 0), EndpointClass::Reads),
            (add("POST", "/*/login", 5, 0), EndpointClass::Writes),
        ];
        let classes = EndpointClasses::of(&endpoints, &tallies);
        for (endpoint, class) in expected {
            assert_eq!(classes.class(endpoint), class, "{}", endpoints.name(endpoint));
        }
        let auth: Vec<String> = classes.auth.iter().map(ToString::to_string).collect();
        assert_eq!(auth, ["POST /enter", "POST /v1/Login"]);
    }
}
