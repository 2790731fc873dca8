//! HTTP calls. Each has a connection of its own: a command makes a few.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

use super::ServiceUrl;
use crate::exit::Failure;

/// The longest wait for a connection, and for each part of a response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest response: the metrics of a policy with thousands of rules are smaller.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;

/// The most that is read of the body of a problem.
const MAX_PROBLEM_BYTES: u64 = 64 << 10;

/// A listener of a service, and how to reach it.
#[derive(Clone, Debug)]
pub(crate) struct ServiceConnection {
    pub(crate) url: ServiceUrl,
    /// The access token.
    pub(super) token: Option<String>,
    /// The environment variable that sets the token, for hints.
    pub(super) token_variable: &'static str,
    /// What the flag names, for hints.
    pub(crate) listener_hint: &'static str,
    /// The certificates of the authorities, in PEM; `None` for those of the system.
    #[cfg(feature = "tls")]
    pub(super) authorities: Option<std::path::PathBuf>,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpCall<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) body: Option<&'a Value>,
}

/// The response to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl<'a> HttpCall<'a> {
    pub(crate) fn get(path: &'a str) -> HttpCall<'a> {
        HttpCall { method: "GET", path, body: None }
    }
}

impl ServiceConnection {
    /// Makes a call. Any status other than a missing or wrong token is returned.
    pub(crate) fn call(&self, call: HttpCall<'_>) -> Result<HttpResponse, Failure> {
        let path = call.path;
        let response = self.exchange(call).map_err(|error| {
            let failure = Failure::failed(format!("cannot call {}{path}: {error}", self.url));
            if error.kind() == io::ErrorKind::ConnectionRefused || error.kind() == io::ErrorKind::TimedOut {
                failure.with_hint(self.listener_hint)
            } else {
                failure
            }
        })?;
        if response.status == 401 {
            let refusal = Failure::failed(format!("{} refused the call: a valid token is required", self.url));
            return Err(refusal.with_hint(format!("set {} to the token of the service", self.token_variable)));
        }
        Ok(response)
    }

    /// Makes a call and returns the body of a response with status 200.
    pub(crate) fn body(&self, call: HttpCall<'_>) -> Result<String, Failure> {
        let response = self.call(call)?;
        if response.status == 200 { Ok(response.body) } else { Err(self.problem(call, &response)) }
    }

    /// Makes a call and returns the JSON of a response with status 200.
    pub(crate) fn json(&self, call: HttpCall<'_>) -> Result<Value, Failure> {
        let body = self.body(call)?;
        serde_json::from_str(&body).map_err(|_| {
            Failure::failed(format!("{}{} returned no JSON", self.url, call.path)).with_hint(self.listener_hint)
        })
    }

    /// Describes a response with another status: by the detail of the problem, if there is one.
    pub(crate) fn problem(&self, call: HttpCall<'_>, response: &HttpResponse) -> Failure {
        let detail = serde_json::from_str::<Value>(&response.body).ok();
        match detail.as_ref().and_then(|problem| problem["detail"].as_str()) {
            Some(detail) => Failure::failed(detail),
            None => Failure::failed(format!("{}{} returned status {}", self.url, call.path, response.status))
                .with_hint(self.listener_hint),
        }
    }

    /// Makes a GET call, and passes each line of the response to `on_line` until that returns false or the response ends.
    pub(crate) fn lines(&self, path: &str, mut on_line: impl FnMut(&str) -> bool) -> io::Result<()> {
        let mut reader = BufReader::new(self.open(HttpCall::get(path))?);
        let mut line = String::new();
        // The head ends with an empty line.
        let mut status = None;
        while reader.read_line(&mut line)? > 2 {
            status = status.or_else(|| line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok()));
            line.clear();
        }
        if status != Some(200) {
            let mut body = String::new();
            reader.take(MAX_PROBLEM_BYTES).read_to_string(&mut body)?;
            let response = HttpResponse { status: status.unwrap_or(0), body };
            return Err(io::Error::other(self.problem(HttpCall::get(path), &response).sentence()));
        }
        loop {
            line.clear();
            if (&mut reader).take(MAX_RESPONSE_BYTES).read_line(&mut line).map_err(timed_out)? == 0 {
                return Ok(());
            }
            if !on_line(line.trim_end()) {
                return Ok(());
            }
        }
    }

    fn exchange(&self, call: HttpCall<'_>) -> io::Result<HttpResponse> {
        let mut bytes = Vec::new();
        match self.open(call)?.take(MAX_RESPONSE_BYTES).read_to_end(&mut bytes) {
            // Some servers end TLS without saying so. The length shows whether the response is complete.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            result => _ = result.map_err(timed_out)?,
        }
        HttpResponse::parse(&bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the response is not HTTP, or it is incomplete"))
    }

    /// Sends a request, and returns the connection: the response ends with it.
    fn open(&self, call: HttpCall<'_>) -> io::Result<Box<dyn Read>> {
        let mut connection = self.connect()?;
        let request = self.request(call);
        if !self.url.is_tls {
            connection.write_all(request.as_bytes())?;
            return Ok(Box::new(connection));
        }
        #[cfg(feature = "tls")]
        {
            let mut encrypted = super::tls::encrypt(&self.url.host, self.authorities.as_deref(), connection)?;
            encrypted.write_all(request.as_bytes())?;
            encrypted.flush()?;
            Ok(Box::new(encrypted))
        }
        #[cfg(not(feature = "tls"))]
        Err(io::Error::new(io::ErrorKind::Unsupported, "this program was built without TLS"))
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (self.url.host.as_str(), self.url.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(connection) => {
                    connection.set_read_timeout(Some(TIMEOUT))?;
                    connection.set_write_timeout(Some(TIMEOUT))?;
                    return Ok(connection);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Returns a request of HTTP/1.0: it has no chunks, and the connection ends with the response.
    fn request(&self, call: HttpCall<'_>) -> String {
        let HttpCall { method, path, body } = call;
        let mut request = format!("{method} {path} HTTP/1.0\r\nHost: {}\r\n", self.url.authority());
        if let Some(token) = &self.token {
            request.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        let body = body.map(Value::to_string);
        if let Some(body) = &body {
            request.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
        }
        request + "\r\n" + body.as_deref().unwrap_or_default()
    }
}

/// Describes the end of a wait for data.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock {
        return io::Error::new(io::ErrorKind::TimedOut, "the service did not respond in 10 seconds");
    }
    error
}

impl HttpResponse {
    /// Parses a whole response; `None` if it is invalid or incomplete.
    fn parse(bytes: &[u8]) -> Option<HttpResponse> {
        let text = str::from_utf8(bytes).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let (status_line, fields) = head.split_once("\r\n").unwrap_or((head, ""));
        let status = status_line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
        let lengths = fields.lines().filter_map(|line| line.split_once(':'));
        let mut lengths = lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let is_complete = match lengths.next() {
            Some((_, length)) => length.trim().parse::<usize>().ok()? == body.len(),
            None => true,
        };
        is_complete.then(|| HttpResponse { status, body: body.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_is_a_status_and_a_complete_body() {
        let parsed = HttpResponse::parse(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        assert_eq!(parsed, HttpResponse { status: 404, body: "{}".to_owned() });
        assert_eq!(HttpResponse::parse(b"HTTP/1.0 200 OK\r\n\r\n").unwrap().status, 200);
        for invalid in [
            "",
            "+OK\r\n",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}",
        ] {
            assert_eq!(HttpResponse::parse(invalid.as_bytes()), None, "{invalid}");
        }
    }
}
