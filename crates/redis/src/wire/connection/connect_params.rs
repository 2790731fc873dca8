use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use crate::resp_value::Value;
use crate::transport::Cause;
use crate::wire::cluster::node_clock::Reading;
use crate::wire::connection::address::Address;
use crate::wire::connection::password::PasswordReader;
use crate::wire::connection::stream::{Connector, ServerStream};
use crate::wire::protocol::command::write_command;
use crate::wire::protocol::reply_parser::ReplyParser;
use crate::wire::protocol::server_error::ServerError;

/// The connection name, shown by `CLIENT LIST`.
const NAME: &[u8] = b"tollgate";

/// The parameters for connecting to a server and authenticating.
#[derive(Clone)]
pub(crate) struct ConnectParams {
    pub(crate) connector: Connector,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Arc<PasswordReader>>,
    pub(crate) database: u32,
    /// Whether the server must be a primary.
    pub(crate) requires_primary: bool,
    /// The timeout for connecting, including the handshake.
    pub(crate) timeout: Duration,
}

/// A connection after the handshake.
pub(crate) struct Connected {
    pub(crate) stream: ServerStream,
    /// The server's clock, if the user may read it.
    pub(crate) clock: Option<Reading>,
}

impl ConnectParams {
    /// Connects, performs the handshake, and reads the server's clock.
    pub(crate) async fn connect(&self, address: &Address) -> Result<Connected, Cause> {
        let connected = async {
            let mut stream = self.connect_without_timeout(address).await?;
            let clock = read_clock(&mut stream).await?;
            Ok(Connected { stream, clock })
        };
        timeout(self.timeout, connected).await.unwrap_or(Err(Cause::Timeout))
    }

    /// Sends one command over a separate connection.
    pub(crate) async fn query(&self, address: &Address, command: &[&[u8]]) -> Result<Value, Cause> {
        let reply = async {
            let mut stream = self.connect_without_timeout(address).await?;
            let mut bytes = Vec::new();
            write_command(&mut bytes, command);
            exchange(&mut stream, &bytes, 1).await?.pop().ok_or(Cause::Protocol)
        };
        timeout(self.timeout, reply).await.unwrap_or(Err(Cause::Timeout))
    }

    async fn connect_without_timeout(&self, address: &Address) -> Result<ServerStream, Cause> {
        let mut stream = self.connector.open(address).await.map_err(|_| Cause::Connection)?;
        let password = match &self.password {
            Some(password) => Some(password.current().await),
            None => None,
        };
        let (bytes, expected) = self.handshake(password.as_deref());
        let replies = exchange(&mut stream, &bytes, expected.len()).await?;
        for (expected, reply) in expected.into_iter().zip(replies) {
            expected.check(&reply)?;
        }
        Ok(stream)
    }

    /// Returns the commands of the handshake, pipelined, and the expected replies.
    fn handshake(&self, password: Option<&str>) -> (Vec<u8>, Vec<Expected>) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        if let Some(password) = password {
            match &self.username {
                Some(username) => write_command(&mut bytes, &[b"AUTH", username.as_bytes(), password.as_bytes()]),
                None => write_command(&mut bytes, &[b"AUTH", password.as_bytes()]),
            }
            expected.push(Expected::Success);
        }
        if self.database != 0 {
            write_command(&mut bytes, &[b"SELECT", self.database.to_string().as_bytes()]);
            expected.push(Expected::Success);
        }
        if self.requires_primary {
            write_command(&mut bytes, &[b"ROLE"]);
            expected.push(Expected::Primary);
        }
        write_command(&mut bytes, &[b"CLIENT", b"SETNAME", NAME]);
        expected.push(Expected::Anything);
        (bytes, expected)
    }
}

/// The reply that a command of the handshake must have.
enum Expected {
    Success,
    Primary,
    /// Any reply. The connection name is optional: a user without the permission to set it can still connect.
    Anything,
}

impl Expected {
    fn check(&self, reply: &Value) -> Result<(), Cause> {
        if let Value::Error(text) = reply {
            let cause = match ServerError::parse(text) {
                // For the optional command too: a server that requires a password replies NOAUTH to every command.
                ServerError::Authentication if !matches!(self, Expected::Anything) || text.starts_with("NOAUTH") => {
                    Some(Cause::Authentication)
                }
                _ if matches!(self, Expected::Anything) => None,
                ServerError::Unavailable | ServerError::ReadOnly => Some(Cause::Unavailable),
                _ if text.contains("AUTH") => Some(Cause::Authentication),
                _ => Some(Cause::Protocol),
            };
            return cause.map_or(Ok(()), Err);
        }
        match self {
            Expected::Primary if !is_primary(reply) => Err(Cause::Unavailable),
            _ => Ok(()),
        }
    }
}

fn is_primary(role: &Value) -> bool {
    match role {
        Value::Array(Some(fields)) => fields.first() == Some(&Value::Bulk(Some(b"master".to_vec()))),
        _ => false,
    }
}

/// Reads the server's clock; `None` if the user lacks the permission for `TIME`.
async fn read_clock(stream: &mut ServerStream) -> Result<Option<Reading>, Cause> {
    let mut bytes = Vec::new();
    write_command(&mut bytes, &[b"TIME"]);
    let sent_at = Instant::now();
    let reply = exchange(stream, &bytes, 1).await?.pop();
    let server_us = reply.as_ref().and_then(parse_time);
    Ok(server_us.map(|server_us| Reading { server_us, sent_at, received_at: Instant::now() }))
}

/// Parses the reply to `TIME`, seconds and microseconds, as microseconds.
fn parse_time(reply: &Value) -> Option<u64> {
    let Value::Array(Some(parts)) = reply else { return None };
    let [Value::Bulk(Some(seconds)), Value::Bulk(Some(micros))] = parts.as_slice() else { return None };
    let number = |digits: &[u8]| str::from_utf8(digits).ok()?.parse::<u64>().ok();
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}

/// Writes commands, and reads `expected` replies.
async fn exchange(stream: &mut ServerStream, bytes: &[u8], expected: usize) -> Result<Vec<Value>, Cause> {
    stream.write_all(bytes).await.map_err(|_| Cause::Connection)?;
    stream.flush().await.map_err(|_| Cause::Connection)?;
    let (mut parser, mut replies) = (ReplyParser::default(), Vec::new());
    let mut buffer = vec![0; 16 * 1024];
    while replies.len() < expected {
        match stream.read(&mut buffer).await {
            Ok(count @ 1..) => parser.feed(&buffer[..count]),
            _ => return Err(Cause::Connection),
        }
        while let Some(reply) = parser.next().map_err(|_| Cause::Protocol)? {
            replies.push(reply);
        }
    }
    Ok(replies)
}
