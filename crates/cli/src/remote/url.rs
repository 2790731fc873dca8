//! The address of a listener of a running service.

use std::fmt;

/// The address of a listener, as in `http://127.0.0.1:9099`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceUrl {
    pub(super) is_tls: bool,
    /// The name or address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

/// The expected form of an address.
#[derive(Debug, thiserror::Error)]
#[error("expected http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:9099")]
pub(crate) struct ExpectedUrl;

impl ServiceUrl {
    /// Parses an address. Without a port it has that of the scheme.
    pub(crate) fn parse(text: &str) -> Result<ServiceUrl, ExpectedUrl> {
        let (is_tls, authority) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err(ExpectedUrl),
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let default_port = if is_tls { 443 } else { 80 };
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (address, after) = rest.split_once(']').ok_or(ExpectedUrl)?;
                address.parse::<std::net::Ipv6Addr>().map_err(|_| ExpectedUrl)?;
                (address, if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or(ExpectedUrl)?) })
            }
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(ExpectedUrl);
        }
        let port = port.map_or(Ok(default_port), str::parse).map_err(|_| ExpectedUrl)?;
        Ok(ServiceUrl { is_tls, host: host.to_owned(), port })
    }

    /// Returns the host and port as the `Host` field has them.
    pub(super) fn authority(&self) -> String {
        let ServiceUrl { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "https" } else { "http" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_a_scheme_a_host_and_a_port() {
        for (text, shown) in [
            ("http://127.0.0.1:9099", "http://127.0.0.1:9099"),
            ("http://[::1]:9099/", "http://[::1]:9099"),
            ("https://[::1]", "https://[::1]:443"),
            ("http://localhost", "http://localhost:80"),
            ("https://limits.internal:1", "https://limits.internal:1"),
        ] {
            assert_eq!(ServiceUrl::parse(text).unwrap().to_string(), shown);
        }
        for invalid in [
            "",
            "127.0.0.1:9099",
            "ftp://127.0.0.1:9099",
            "http://",
            "http://:1",
            "http://a:b",
            "http://a/b:1",
            "http://user@a:1",
            "http://a:1/path",
            "http://[::1:1",
            "http://[a]:1",
            "http://a:70000",
            "http://a\r\nb:1",
        ] {
            assert!(ServiceUrl::parse(invalid).is_err(), "{invalid}");
        }
    }
}
