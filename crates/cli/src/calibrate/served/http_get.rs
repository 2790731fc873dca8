//! GET requests to the admin listener of a running service.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::exit::Failure;

/// The longest wait for a connection, and for each part of a response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest response: the metrics of a policy with thousands of rules are smaller.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;

/// The address of an admin listener, as in `http://127.0.0.1:9099`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminUrl {
    host: String,
}

/// The expected form of an address.
#[derive(Debug, thiserror::Error)]
#[error("expected http://HOST:PORT, such as http://127.0.0.1:9099 (TLS is not supported here)")]
pub(crate) struct ExpectedAdminUrl;

impl AdminUrl {
    /// Parses an address.
    pub(crate) fn parse(text: &str) -> Result<AdminUrl, ExpectedAdminUrl> {
        let host = text.strip_prefix("http://").ok_or(ExpectedAdminUrl)?.trim_end_matches('/');
        let port = host.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse::<u16>().ok()?)));
        let is_host = |name: &str| !name.is_empty() && !name.contains(['/', '@', '?', '#', ' ', '\r', '\n']);
        match port {
            Some((name, _)) if is_host(name) => Ok(AdminUrl { host: host.to_owned() }),
            _ => Err(ExpectedAdminUrl),
        }
    }

    /// Returns the body of a response with status 200.
    pub(crate) fn get(&self, path: &str, token: Option<&str>) -> Result<String, Failure> {
        let response = self.exchange(path, token).map_err(|error| {
            Failure::failed(format!("cannot read {self}{path}: {error}"))
                .with_hint("`--admin` is the admin listener of a running `tollgate serve`")
        })?;
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
        match head.split(' ').nth(1) {
            Some("200") => Ok(body.to_owned()),
            Some("401") => Err(Failure::failed(format!("{self} requires a token"))
                .with_hint("set TOLLGATE_ADMIN_TOKEN to the token of the service")),
            status => Err(Failure::failed(format!("{self}{path} returned status {}", status.unwrap_or("(none)")))),
        }
    }

    /// Sends a request and reads the response until the server closes the connection.
    fn exchange(&self, path: &str, token: Option<&str>) -> std::io::Result<String> {
        let address = self.host.to_socket_addrs()?.next().ok_or(std::io::ErrorKind::NotFound)?;
        let mut connection = TcpStream::connect_timeout(&address, TIMEOUT)?;
        connection.set_read_timeout(Some(TIMEOUT))?;
        connection.set_write_timeout(Some(TIMEOUT))?;
        // HTTP/1.0 has no chunks, and the connection ends with the response.
        let authorization = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        let head = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n{authorization}\r\n", self.host);
        connection.write_all(head.as_bytes())?;
        let mut response = Vec::new();
        connection.take(MAX_RESPONSE_BYTES).read_to_end(&mut response)?;
        String::from_utf8(response).map_err(|_| std::io::ErrorKind::InvalidData.into())
    }
}

impl std::fmt::Display for AdminUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}", self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_a_host_and_a_port() {
        for valid in ["http://127.0.0.1:9099", "http://[::1]:9099/", "http://localhost:1"] {
            assert!(AdminUrl::parse(valid).is_ok(), "{valid}");
        }
        for invalid in
            ["", "127.0.0.1:9099", "https://127.0.0.1:9099", "http://127.0.0.1", "http://a:b", "http://a/b:1"]
        {
            assert!(AdminUrl::parse(invalid).is_err(), "{invalid}");
        }
    }
}
