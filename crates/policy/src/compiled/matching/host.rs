//! Hosts made comparable.

use std::borrow::Cow;

/// A host without its port, in lower case, without the dot that ends a full name. `None` if there is none.
pub(in crate::compiled) fn normalise(host: &str) -> Option<Cow<'_, [u8]>> {
    let host = without_port(host.trim_ascii().as_bytes());
    let host = host.strip_suffix(b".").unwrap_or(host);
    if host.is_empty() {
        return None;
    }
    if host.iter().any(u8::is_ascii_uppercase) {
        return Some(Cow::Owned(host.to_ascii_lowercase()));
    }
    Some(Cow::Borrowed(host))
}

fn without_port(host: &[u8]) -> &[u8] {
    if host.first() == Some(&b'[') {
        let end = host.iter().position(|byte| *byte == b']');
        return end.map_or(host, |end| &host[..=end]);
    }
    let mut colons = host.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
    match (colons.next(), colons.next()) {
        (Some(at), None) => &host[..at],
        // Several colons and no brackets: an IPv6 address that somebody wrote bare.
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_case_and_a_last_dot_do_not_count() {
        for (host, expected) in [
            ("example.com", Some("example.com")),
            ("Example.COM:8080", Some("example.com")),
            ("example.com.", Some("example.com")),
            ("example.com.:80", Some("example.com")),
            ("[::1]:80", Some("[::1]")),
            ("[::1", Some("[::1")),
            ("::1", Some("::1")),
            (" ", None),
            (":80", None),
            (".", None),
        ] {
            assert_eq!(normalise(host).as_deref(), expected.map(str::as_bytes), "{host}");
        }
    }
}
