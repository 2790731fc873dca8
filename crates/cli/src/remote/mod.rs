//! Calls to a running service: the flags that name it, and HTTP.

mod arguments;
mod http;
mod service_status;
#[cfg(feature = "tls")]
mod tls;
mod url;

pub(crate) use arguments::{AdminServiceArguments, PublicArguments};
pub(crate) use http::{HttpCall, HttpResponse, ServiceConnection};
pub(crate) use service_status::{RateLists, RefusedClientStatus, RuleStatus, ServiceStatus};
pub(crate) use url::ServiceUrl;

/// Percent-encodes a segment of a path. Bars and slashes between the parts of a key are encoded too.
pub(crate) fn path_segment(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_segments_have_no_reserved_letters() {
        assert_eq!(path_segment("alice|/api/é ?"), "alice%7C%2Fapi%2F%C3%A9%20%3F");
        assert_eq!(path_segment("a-b_c.d~1"), "a-b_c.d~1");
    }
}
