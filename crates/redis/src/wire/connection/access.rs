use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use crate::resp_value::Value;
use crate::transport::Cause;
use crate::wire::cluster::node_clock::Reading;
use crate::wire::connection::address::Address;
use crate::wire::connection::password::Password;
use crate::wire::connection::stream::{Connector, Stream};
use crate::wire::protocol::command::write_command;
use crate::wire::protocol::reply_parser::ReplyParser;
use crate::wire::protocol::server_error::ServerError;

/// How this program is known to whoever looks at a server's connections.
const NAME: &[u8] = b"tollgate";

/// What it takes to be let in by a server.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) connector: Connector,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Password>,
    pub(crate) database: u32,
    /// Whether a server that is not a primary is of no use.
    pub(crate) only_primary: bool,
    pub(crate) timeout: Duration,
}

/// A connection that is ready for calls.
pub(crate) struct Connected {
    pub(crate) stream: Stream,
    /// The server's clock, unless it does not say.
    pub(crate) clock: Option<Reading>,
}

impl Access {
    /// Connects, and makes the connection ready for calls.
    pub(crate) async fn connect(&self, address: &Address) -> Result<Connected, Cause> {
        let connected = async {
            let mut stream = self.connect_in_any_time(address).await?;
            let clock = read_clock(&mut stream).await?;
            Ok(Connected { stream, clock })
        };
        timeout(self.timeout, connected).await.unwrap_or(Err(Cause::Timeout))
    }

    /// Asks one thing over a connection of its own.
    pub(crate) async fn ask(&self, address: &Address, command: &[&[u8]]) -> Result<Value, Cause> {
        let asked = async {
            let mut stream = self.connect_in_any_time(address).await?;
            let mut bytes = Vec::new();
            write_command(&mut bytes, command);
            exchange(&mut stream, &bytes, 1).await?.pop().ok_or(Cause::Protocol)
        };
        timeout(self.timeout, asked).await.unwrap_or(Err(Cause::Timeout))
    }

    async fn connect_in_any_time(&self, address: &Address) -> Result<Stream, Cause> {
        let mut stream = self.connector.open(address).await.map_err(|_| Cause::Connection)?;
        let (bytes, expected) = self.greeting();
        let answers = exchange(&mut stream, &bytes, expected.len()).await?;
        for (expected, answer) in expected.into_iter().zip(answers) {
            expected.check(&answer)?;
        }
        Ok(stream)
    }

    /// All that is said first, in one piece, and what has to come back.
    fn greeting(&self) -> (Vec<u8>, Vec<Expected>) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        if let Some(password) = &self.password {
            let password = password.reveal().as_bytes();
            match &self.username {
                Some(username) => write_command(&mut bytes, &[b"AUTH", username.as_bytes(), password]),
                None => write_command(&mut bytes, &[b"AUTH", password]),
            }
            expected.push(Expected::Acceptance);
        }
        if self.database != 0 {
            write_command(&mut bytes, &[b"SELECT", self.database.to_string().as_bytes()]);
            expected.push(Expected::Acceptance);
        }
        if self.only_primary {
            write_command(&mut bytes, &[b"ROLE"]);
            expected.push(Expected::Primary);
        }
        write_command(&mut bytes, &[b"CLIENT", b"SETNAME", NAME]);
        expected.push(Expected::Anything);
        (bytes, expected)
    }
}

enum Expected {
    Acceptance,
    Primary,
    /// A name is a courtesy: who may not give one is let in all the same.
    Anything,
}

impl Expected {
    fn check(&self, answer: &Value) -> Result<(), Cause> {
        if let Value::Error(text) = answer {
            let refused = match ServerError::read(text) {
                // Also to a command that is a courtesy: nothing is answered before a password is given.
                ServerError::Authentication if !matches!(self, Expected::Anything) || text.starts_with("NOAUTH") => {
                    Some(Cause::Authentication)
                }
                _ if matches!(self, Expected::Anything) => None,
                ServerError::NotNow | ServerError::ReadOnly => Some(Cause::Unavailable),
                _ if text.contains("AUTH") => Some(Cause::Authentication),
                _ => Some(Cause::Protocol),
            };
            return refused.map_or(Ok(()), Err);
        }
        match self {
            Expected::Primary if !is_primary(answer) => Err(Cause::Unavailable),
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

/// Asks for the time. Who may not ask for it is let in all the same.
async fn read_clock(stream: &mut Stream) -> Result<Option<Reading>, Cause> {
    let mut bytes = Vec::new();
    write_command(&mut bytes, &[b"TIME"]);
    let asked_at = Instant::now();
    let answer = exchange(stream, &bytes, 1).await?.pop();
    let server_us = answer.as_ref().and_then(read_time);
    Ok(server_us.map(|server_us| Reading { server_us, asked_at, heard_at: Instant::now() }))
}

/// Reads seconds and microseconds.
fn read_time(answer: &Value) -> Option<u64> {
    let Value::Array(Some(parts)) = answer else { return None };
    let [Value::Bulk(Some(seconds)), Value::Bulk(Some(micros))] = parts.as_slice() else { return None };
    let number = |digits: &[u8]| str::from_utf8(digits).ok()?.parse::<u64>().ok();
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}

async fn exchange(stream: &mut Stream, bytes: &[u8], expected: usize) -> Result<Vec<Value>, Cause> {
    stream.write_all(bytes).await.map_err(|_| Cause::Connection)?;
    stream.flush().await.map_err(|_| Cause::Connection)?;
    let (mut parser, mut answers) = (ReplyParser::default(), Vec::new());
    let mut piece = vec![0; 16 * 1024];
    while answers.len() < expected {
        match stream.read(&mut piece).await {
            Ok(count @ 1..) => parser.feed(&piece[..count]),
            _ => return Err(Cause::Connection),
        }
        while let Some(answer) = parser.next().map_err(|_| Cause::Protocol)? {
            answers.push(answer);
        }
    }
    Ok(answers)
}
