use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// Where a listener is to be, or that it is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    Off,
    At(SocketAddr),
}

/// What the text of a listener's address should have been.
#[derive(Debug, thiserror::Error)]
#[error("expected an address such as 127.0.0.1:8080 or [::1]:8080, a port such as :8080, or off")]
pub(crate) struct NotAnAddress;

impl ListenAddress {
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            ListenAddress::Off => None,
            ListenAddress::At(address) => Some(address),
        }
    }
}

/// Nothing is open to other machines unless its address says so: a port alone is one of this machine.
impl FromStr for ListenAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<ListenAddress, NotAnAddress> {
        if text == "off" {
            return Ok(ListenAddress::Off);
        }
        let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let address = port.parse().map(loopback).or_else(|_| text.parse());
        address.map(ListenAddress::At).map_err(|_| NotAnAddress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_a_loopback_address() {
        let expected = ListenAddress::At("127.0.0.1:8080".parse().unwrap());
        for text in ["127.0.0.1:8080", ":8080", "8080", "localhost:8080"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn whole_addresses_are_taken_as_they_are() {
        assert_eq!("[::]:80".parse::<ListenAddress>().unwrap().address(), "[::]:80".parse().ok());
        assert_eq!("0.0.0.0:0".parse::<ListenAddress>().unwrap().address(), "0.0.0.0:0".parse().ok());
        assert_eq!("off".parse::<ListenAddress>().unwrap(), ListenAddress::Off);
    }

    #[test]
    fn everything_else_is_refused() {
        for text in
            ["", ":", "OFF", "127.0.0.1", "127.0.0.1:", ":65536", "-1", "::1:80x", "example.com:80", "localhost"]
        {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
