//! A client with its own address, and the responses that it gets.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use socket2::{Domain, Socket, Type};

/// A test that hangs fails after this time.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// A client of the gateway.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    /// The last part of its address, which begins with 127.0.0.
    pub(crate) host: u8,
    pub(crate) gateway: SocketAddr,
}

/// A response of the gateway.
#[derive(Debug)]
pub(crate) struct GatewayResponse {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Client {
    pub(crate) fn get(&self, path: &str) -> GatewayResponse {
        self.send("GET", path, &[], "").unwrap()
    }

    /// Sends a POST with additional header fields.
    pub(crate) fn post(&self, path: &str, fields: &[(&str, &str)], body: &str) -> GatewayResponse {
        self.send("POST", path, fields, body).unwrap()
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) -> io::Result<GatewayResponse> {
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = if method == "GET" { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n{length}{fields}\r\n{body}");
        let mut connection = self.connect()?;
        connection.write_all(request.as_bytes())?;
        let mut text = String::new();
        connection.read_to_string(&mut text)?;
        GatewayResponse::read(&text).ok_or_else(|| io::Error::other(text))
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, self.host), 0)).into())?;
        socket.connect(&self.gateway.into())?;
        let connection = TcpStream::from(socket);
        connection.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(connection)
    }
}

impl GatewayResponse {
    fn read(text: &str) -> Option<GatewayResponse> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(GatewayResponse { status, head: head.to_owned(), body: body.to_owned() })
    }

    /// The one value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut values = fields.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let value = values.next();
        assert_eq!(values.next(), None, "{name} is repeated");
        value
    }

    /// The problem details in the body.
    pub(crate) fn problem(&self) -> Value {
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
