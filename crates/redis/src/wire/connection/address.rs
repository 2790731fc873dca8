use std::fmt;
use std::sync::Arc;

/// The host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
}

impl Address {
    /// Parses an address as configured: `host:port`, or `[::1]:6379` for an IPv6 address.
    pub(crate) fn parse(text: &str) -> Option<Address> {
        let address = Address::from_server(text)?;
        let host = match address.host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?,
            None if address.host.contains(':') => return None,
            None => &address.host,
        };
        let is_plain = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/' || c == '@');
        is_plain.then(|| Address { host: host.into(), port: address.port })
    }

    /// Parses an address as servers send it: without brackets, and possibly without a host.
    pub(crate) fn from_server(text: &str) -> Option<Address> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|&port| port != 0)?;
        Some(Address { host: host.into(), port })
    }

    /// Completes an address without a host by that of the server that sent it. A server that does not know its own
    /// host leaves it out.
    pub(crate) fn or_host_of(self, responder: &Address) -> Address {
        if self.host.is_empty() || &*self.host == "?" {
            Address { host: Arc::clone(&responder.host), ..self }
        } else {
            self
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_addresses_need_a_host_and_a_port() {
        for text in ["localhost:6379", "10.0.0.1:1", "[::1]:6379"] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "localhost", "localhost:", ":6379", "localhost:0", "a:65536", "::1:6379", "redis://a:1"] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }

    #[test]
    fn missing_host_is_that_of_the_responding_server() {
        let responder = Address::parse("example:1").unwrap();
        let named = |text| Address::from_server(text).unwrap().or_host_of(&responder).to_string();
        assert_eq!(named(":7000"), "example:7000");
        assert_eq!(named("?:7000"), "example:7000");
        assert_eq!(named("10.0.0.1:7000"), "10.0.0.1:7000");
        assert_eq!(named("::1:7000"), "[::1]:7000");
    }
}
