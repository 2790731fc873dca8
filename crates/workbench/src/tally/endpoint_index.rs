//! The endpoints of a log: methods and paths, in which segments that look like IDs are placeholders.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use super::to_u32;

/// The largest number of endpoints. A scan of random paths is counted under [`OTHER`].
const MAX_ENDPOINTS: usize = 10_000;

/// The largest number of raw paths whose endpoint is remembered.
const MAX_REMEMBERED: usize = 100_000;

/// The endpoint of all requests that found the table full.
const OTHER: u32 = 0;

/// The placeholder of a segment that looks like an ID.
pub(crate) const PLACEHOLDER: &str = "{id}";

/// A method and a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointName {
    /// The method; empty if it is unknown, and for the rest of a full table.
    pub method: Box<str>,
    /// The path, with `{id}` for each segment that looks like an ID.
    pub path: Box<str>,
}

impl std::fmt::Display for EndpointName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.method.is_empty() && self.path.is_empty() {
            // For example the beginning of a TLS handshake on a port without TLS.
            return f.write_str("(no HTTP request)");
        }
        let space = if self.method.is_empty() { "" } else { " " };
        write!(f, "{}{space}{}", self.method, self.path)
    }
}

/// Numbers endpoints.
pub(crate) struct EndpointIndex {
    names: Vec<EndpointName>,
    numbers: HashMap<Box<str>, u32, RandomState>,
    /// Endpoints by the hash of the method and the path as sent, which saves the normalisation of frequent paths, and
    /// comparisons of texts. Of 100,000 paths, two have the same hash with a probability of 3e-10, and the hash is seeded.
    remembered: HashMap<u64, u32, RandomState>,
    hasher: foldhash::quality::RandomState,
}

impl Default for EndpointIndex {
    fn default() -> EndpointIndex {
        let other = EndpointName { method: "".into(), path: "(other)".into() };
        EndpointIndex {
            names: vec![other],
            numbers: HashMap::default(),
            remembered: HashMap::default(),
            hasher: foldhash::quality::RandomState::default(),
        }
    }
}

impl EndpointIndex {
    /// Returns the number of the endpoint of a request.
    pub(crate) fn number(&mut self, method: &str, target: &str) -> u32 {
        let path = path_of(target);
        let hash = self.hasher.hash_one((method, path));
        if let Some(known) = self.remembered.get(&hash) {
            return *known;
        }
        let number = self.normalized(method, path);
        if self.remembered.len() < MAX_REMEMBERED {
            self.remembered.insert(hash, number);
        }
        number
    }

    /// Returns the name of an endpoint.
    pub(crate) fn name(&self, number: u32) -> &EndpointName {
        &self.names[number as usize]
    }

    fn normalized(&mut self, method: &str, path: &str) -> u32 {
        let path = template(path);
        let name = format!("{method} {path}");
        if let Some(known) = self.numbers.get(name.as_str()) {
            return *known;
        }
        if self.names.len() >= MAX_ENDPOINTS {
            return OTHER;
        }
        let number = to_u32(self.names.len());
        self.names.push(EndpointName { method: method.into(), path: path.into() });
        self.numbers.insert(name.into(), number);
        number
    }
}

/// Returns a target without its query.
pub(crate) fn path_of(target: &str) -> &str {
    let end = target.bytes().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(target.len());
    &target[..end]
}

/// Returns a path without a trailing slash, with a placeholder for each segment that looks like an ID.
fn template(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() {
        return if path.is_empty() { String::new() } else { "/".to_owned() };
    }
    let segments = trimmed.split('/').map(|segment| if is_id(segment) { PLACEHOLDER } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

/// Whether a segment looks like an ID: only digits, or long with a digit, as a UUID or a hash.
fn is_id(segment: &str) -> bool {
    /// Names of endpoints that contain a digit (`v1`, `oauth2`, `log4j.js`) are shorter.
    const MIN_MIXED: usize = 12;
    /// No name of an endpoint is this long.
    const MIN_ANY: usize = 48;
    let has_digit = segment.bytes().any(|byte| byte.is_ascii_digit());
    let only_digits = has_digit && segment.bytes().all(|byte| byte.is_ascii_digit());
    only_digits || (has_digit && segment.len() >= MIN_MIXED) || segment.len() >= MIN_ANY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_has_placeholders_for_ids() {
        let mut table = EndpointIndex::default();
        let mut name = |method, target| {
            let number = table.number(method, target);
            assert_eq!(table.number(method, target), number);
            table.name(number).to_string()
        };
        assert_eq!(name("GET", "/users/42/orders?page=2"), "GET /users/{id}/orders");
        assert_eq!(name("GET", "/v1/o/6f1c9a52-6d6e-4a39-8f3f-3f2f8d1b9f10/"), "GET /v1/o/{id}");
        assert_eq!((name("GET", "/"), name("", "")), ("GET /".to_owned(), "(no HTTP request)".to_owned()));
    }

    #[test]
    fn full_table_counts_the_rest_together() {
        let mut table = EndpointIndex::default();
        for at in 0..2 * MAX_ENDPOINTS {
            // Letters only: digits would become a placeholder.
            let path: String = format!("/{at}").replace(|c: char| c.is_ascii_digit(), "x") + &"y".repeat(at % 40);
            table.number("GET", &format!("{path}{}", letters(at)));
        }
        assert_eq!(table.names.len(), MAX_ENDPOINTS);
        assert_eq!(table.number("GET", "/never/seen"), OTHER);
    }

    fn letters(mut number: usize) -> String {
        let mut text = String::new();
        while number > 0 {
            text.push(char::from(b'a' + (number % 26) as u8));
            number /= 26;
        }
        text
    }
}
