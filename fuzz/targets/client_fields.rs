//! Reading the fields of a response never panics, and nothing that it returns exceeds the bounds.
//!
//! The input is lines: `Name: value`, in any bytes.

#![no_main]

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use tollgate::client::ServerHint;

const YEAR: Duration = Duration::from_secs(366 * 24 * 3_600);
const MAX_COUNT: u64 = 999_999_999_999_999;

fuzz_target!(|data: &[u8]| {
    let headers: HeaderMap = data.split(|byte| *byte == b'\n').filter_map(field).collect();
    for now_s in [0, 1_700_000_000, 100_000_000_000] {
        let hint = ServerHint::from_headers(&headers, UNIX_EPOCH + Duration::from_secs(now_s));
        assert!(hint.retry_after.is_none_or(|span| span <= YEAR));
        for limit in &hint.limits {
            assert!(limit.remaining <= MAX_COUNT);
            assert!(limit.quota.is_none_or(|quota| (1..=MAX_COUNT).contains(&quota)));
            assert!(limit.reset.is_none_or(|span| span <= YEAR));
            assert!(limit.window.is_none_or(|span| span >= Duration::from_secs(1) && span <= YEAR));
        }
        if !headers.contains_key("retry-after") {
            assert!(hint.retry_after.is_none());
        }
    }
});

fn field(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let at = line.iter().position(|byte| *byte == b':')?;
    let name = HeaderName::from_bytes(&line[..at]).ok()?;
    Some((name, HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?))
}
