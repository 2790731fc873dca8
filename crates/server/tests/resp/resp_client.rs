//! A minimal RESP client, so that tests see the exact bytes.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Far longer than any reply takes; a test that hangs should fail.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct RespClient(BufReader<TcpStream>);

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Text(String),
    Null,
    List(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
}

/// Encodes a command as clients send it.
pub(crate) fn frame<B: AsRef<[u8]>>(arguments: &[B]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend_from_slice(argument);
        bytes.extend(b"\r\n");
    }
    bytes
}

pub(crate) fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.into())
}

pub(crate) fn ok() -> Reply {
    Reply::Simple("OK".to_owned())
}

pub(crate) fn error(text: &str) -> Reply {
    Reply::Error(text.to_owned())
}

pub(crate) fn integers(values: &[i64]) -> Reply {
    Reply::List(values.iter().map(|value| Reply::Integer(*value)).collect())
}

impl RespClient {
    pub(crate) fn open(server: SocketAddr) -> RespClient {
        let stream = TcpStream::connect_timeout(&server, TIMEOUT).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        RespClient(BufReader::new(stream))
    }

    /// Returns a handle to the same connection, to write from another thread.
    pub(crate) fn try_clone(&self) -> RespClient {
        RespClient(BufReader::new(self.0.get_ref().try_clone().unwrap()))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// Sends to a service that may have closed the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// Sends a command of words without spaces, and returns its reply.
    pub(crate) fn call(&mut self, words: &str) -> Reply {
        self.call_with(&words.split(' ').collect::<Vec<_>>())
    }

    pub(crate) fn call_with<B: AsRef<[u8]>>(&mut self, arguments: &[B]) -> Reply {
        self.send(&frame(arguments));
        self.reply()
    }

    pub(crate) fn reply(&mut self) -> Reply {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        let count = || rest.parse::<i64>().unwrap();
        match kind {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(count()),
            "_" => Reply::Null,
            "$" if count() < 0 => Reply::Null,
            "$" => Reply::Bulk(self.bytes(count())),
            "=" => {
                let text = String::from_utf8(self.bytes(count())).unwrap();
                Reply::Text(text.strip_prefix("txt:").unwrap().to_owned())
            }
            "*" => Reply::List((0..count()).map(|_| self.reply()).collect()),
            "%" => Reply::Map((0..count()).map(|_| (self.reply(), self.reply())).collect()),
            _ => panic!("{line:?} is not a reply"),
        }
    }

    /// Reads until the connection is closed.
    pub(crate) fn read_to_end(&mut self) -> String {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => {}
            // The service had not read all that was sent.
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        String::from_utf8(rest).unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).unwrap();
        let line = String::from_utf8(line).unwrap();
        line.strip_suffix("\r\n").unwrap_or_else(|| panic!("{line:?} is not a complete line")).to_owned()
    }

    fn bytes(&mut self, length: i64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(length).unwrap() + 2];
        self.0.read_exact(&mut bytes).unwrap();
        assert!(bytes.ends_with(b"\r\n"));
        bytes.truncate(bytes.len() - 2);
        bytes
    }
}
