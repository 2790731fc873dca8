use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// The address of a listener, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    Off,
    At(SocketAddr),
}

/// The error for a text that is not the address of a listener.
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

/// A port without an address is on loopback, so that a listener is reachable from other machines only with an explicit
/// address.
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
    fn address_with_a_port_is_used_unchanged() {
        assert_eq!("[::]:80".parse::<ListenAddress>().unwrap().address(), "[::]:80".parse().ok());
        assert_eq!("0.0.0.0:0".parse::<ListenAddress>().unwrap().address(), "0.0.0.0:0".parse().ok());
        assert_eq!("off".parse::<ListenAddress>().unwrap(), ListenAddress::Off);
    }

    #[test]
    fn other_texts_are_rejected() {
        for text in
            ["", ":", "OFF", "127.0.0.1", "127.0.0.1:", ":65536", "-1", "::1:80x", "example.com:80", "localhost"]
        {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
