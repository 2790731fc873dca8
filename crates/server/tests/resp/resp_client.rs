//! As much of RESP as a test needs, so that it sees the very bytes.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Nothing here takes long; a test that hangs should fail.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct RespClient(BufReader<TcpStream>);

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Text(String),
    Null,
    List(Vec<Answer>),
    Map(Vec<(Answer, Answer)>),
}

/// A command as clients send it.
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

pub(crate) fn bulk(text: &str) -> Answer {
    Answer::Bulk(text.into())
}

pub(crate) fn ok() -> Answer {
    Answer::Simple("OK".to_owned())
}

pub(crate) fn error(text: &str) -> Answer {
    Answer::Error(text.to_owned())
}

pub(crate) fn integers(values: &[i64]) -> Answer {
    Answer::List(values.iter().map(|value| Answer::Integer(*value)).collect())
}

impl RespClient {
    pub(crate) fn open(server: SocketAddr) -> RespClient {
        let stream = TcpStream::connect_timeout(&server, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        RespClient(BufReader::new(stream))
    }

    /// The same connection, to write from another thread.
    pub(crate) fn try_clone(&self) -> RespClient {
        RespClient(BufReader::new(self.0.get_ref().try_clone().unwrap()))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// Sends to somebody who may have hung up already.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// A command of words without spaces, and its answer.
    pub(crate) fn call(&mut self, words: &str) -> Answer {
        self.call_with(&words.split(' ').collect::<Vec<_>>())
    }

    pub(crate) fn call_with<B: AsRef<[u8]>>(&mut self, arguments: &[B]) -> Answer {
        self.send(&frame(arguments));
        self.answer()
    }

    pub(crate) fn answer(&mut self) -> Answer {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        let count = || rest.parse::<i64>().unwrap();
        match kind {
            "+" => Answer::Simple(rest.to_owned()),
            "-" => Answer::Error(rest.to_owned()),
            ":" => Answer::Integer(count()),
            "_" => Answer::Null,
            "$" if count() < 0 => Answer::Null,
            "$" => Answer::Bulk(self.bytes(count())),
            "=" => {
                let text = String::from_utf8(self.bytes(count())).unwrap();
                Answer::Text(text.strip_prefix("txt:").unwrap().to_owned())
            }
            "*" => Answer::List((0..count()).map(|_| self.answer()).collect()),
            "%" => Answer::Map((0..count()).map(|_| (self.answer(), self.answer())).collect()),
            _ => panic!("{line:?} is no answer"),
        }
    }

    /// What it still says before it hangs up.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => {}
            // It had not read all that it was sent.
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        String::from_utf8(rest).unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).unwrap();
        let line = String::from_utf8(line).unwrap();
        line.strip_suffix("\r\n").unwrap_or_else(|| panic!("{line:?} is no line")).to_owned()
    }

    fn bytes(&mut self, length: i64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(length).unwrap() + 2];
        self.0.read_exact(&mut bytes).unwrap();
        assert!(bytes.ends_with(b"\r\n"));
        bytes.truncate(bytes.len() - 2);
        bytes
    }
}
