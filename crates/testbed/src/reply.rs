use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An integer.
    Integer(i64),
    /// A simple string or a bulk string.
    Text(String),
    /// A null bulk string or array.
    Nil,
    /// An error, beginning with its code.
    Error(String),
    /// An array.
    Array(Vec<Reply>),
}

impl Reply {
    /// Returns the text of a string.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Reply::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Sends a command over a new connection, after `AUTH` if there is a password. This is a second, simpler client, so that a
/// test does not rely on the client that it tests.
pub fn ask(address: SocketAddr, password: Option<&str>, command: &[&str]) -> io::Result<Reply> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut stream = BufReader::new(stream);
    if let Some(password) = password {
        send(stream.get_mut(), &["AUTH", password])?;
        if let Reply::Error(error) = receive(&mut stream)? {
            return Ok(Reply::Error(error));
        }
    }
    send(stream.get_mut(), command)?;
    receive(&mut stream)
}

fn send(stream: &mut TcpStream, command: &[&str]) -> io::Result<()> {
    let mut bytes = format!("*{}\r\n", command.len());
    for part in command {
        bytes.push_str(&format!("${}\r\n{part}\r\n", part.len()));
    }
    stream.write_all(bytes.as_bytes())
}

fn receive(stream: &mut BufReader<TcpStream>) -> io::Result<Reply> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let line = line.trim_end();
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, format!("malformed reply {line:?}"));
    let (kind, rest) = line.split_at_checked(1).ok_or_else(malformed)?;
    let number = || rest.parse::<i64>().map_err(|_| malformed());
    Ok(match kind {
        "+" => Reply::Text(rest.to_owned()),
        "-" => Reply::Error(rest.to_owned()),
        ":" => Reply::Integer(number()?),
        "$" => match usize::try_from(number()?) {
            Ok(length) => {
                let mut bytes = vec![0; length + 2];
                stream.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Reply::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
            Err(_) => Reply::Nil,
        },
        "*" => match usize::try_from(number()?) {
            Ok(length) => Reply::Array((0..length).map(|_| receive(stream)).collect::<io::Result<_>>()?),
            Err(_) => Reply::Nil,
        },
        _ => return Err(malformed()),
    })
}
