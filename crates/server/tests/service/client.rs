//! A minimal HTTP/1.1 client, so that tests see the exact bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Far longer than any response takes; a test that hangs should fail.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A connection that stays open between requests.
pub(crate) struct Connection(BufReader<TcpStream>);

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) body: String,
}

/// Sends one request on a new connection.
pub(crate) fn request(server: SocketAddr, method: &str, path: &str, body: &str) -> Response {
    Connection::open(server).request(method, path, body)
}

impl Connection {
    pub(crate) fn open(server: SocketAddr) -> Connection {
        let stream = TcpStream::connect_timeout(&server, TIMEOUT).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Connection(BufReader::new(stream))
    }

    /// Uses a connection that is already open.
    #[allow(dead_code, reason = "only some tests choose their source address")]
    pub(crate) fn over(stream: TcpStream) -> Connection {
        Connection(BufReader::new(stream))
    }

    pub(crate) fn request(&mut self, method: &str, path: &str, body: &str) -> Response {
        self.send(&format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ));
        self.response()
    }

    /// Sends the headers of a check, and returns when the service waits for the body of `length` bytes.
    pub(crate) fn begin_check(&mut self, length: usize) {
        self.send(&format!(
            "POST /v1/check HTTP/1.1\r\nhost: tollgate\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        ));
        assert_eq!(self.line(), "HTTP/1.1 100 Continue");
        assert_eq!(self.line(), "");
    }

    /// Reads the headers of a response with an endless body, and returns one of them.
    #[allow(dead_code, reason = "only some tests read events")]
    pub(crate) fn head_field(&mut self, name: &str) -> Option<String> {
        let lines: Vec<String> = std::iter::from_fn(|| Some(self.line()).filter(|line| !line.is_empty())).collect();
        let fields = lines.iter().filter_map(|line| line.split_once(": "));
        fields.filter(|(known, _)| *known == name).map(|(_, value)| value.to_owned()).next()
    }

    /// Reads lines until one contains a text, and returns it.
    #[allow(dead_code, reason = "only some tests read events")]
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        (0..1_000).map(|_| self.line()).find(|line| line.contains(text)).unwrap()
    }

    pub(crate) fn send(&mut self, bytes: &str) {
        self.0.get_mut().write_all(bytes.as_bytes()).unwrap();
    }

    pub(crate) fn response(&mut self) -> Response {
        let status = self.line();
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let fields: Vec<(String, String)> = std::iter::from_fn(|| Some(self.line()).filter(|line| !line.is_empty()))
            .map(|line| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned())).unwrap())
            .collect();
        let mut response = Response { status, fields, body: String::new() };
        let length: u64 = response.field("content-length").unwrap().parse().unwrap();
        (&mut self.0).take(length).read_to_string(&mut response.body).unwrap();
        response
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Response {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}
