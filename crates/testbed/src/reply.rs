use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A number.
    Integer(i64),
    /// A text, whether it was sent as a simple or as a bulk string.
    Text(String),
    /// Nothing.
    Nil,
    /// A refusal, with its code.
    Error(String),
    /// Several.
    Array(Vec<Reply>),
}

impl Reply {
    /// The text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Reply::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Asks a server over a connection of its own, after giving a password if there
/// is one. This is a second, simpler client, so that a test does not trust the
/// one it tests.
pub fn ask(address: SocketAddr, password: Option<&str>, command: &[&str]) -> io::Result<Reply> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
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
    let nonsense = || io::Error::new(io::ErrorKind::InvalidData, format!("a server answered {line:?}"));
    let (kind, rest) = line.split_at_checked(1).ok_or_else(nonsense)?;
    let number = || rest.parse::<i64>().map_err(|_| nonsense());
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
        _ => return Err(nonsense()),
    })
}
