//! A minimal blocking client: one connection, with pipelining.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tollgate_testbed::RedisServer;

use crate::call::{Call, ScriptReply};
use crate::resp_value::Value;
use crate::script::{Encoded, SOURCE, decode, encode};

pub(crate) struct Client {
    reader: BufReader<TcpStream>,
    sha: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(server: &RedisServer) -> Client {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Client { reader: BufReader::with_capacity(1 << 16, stream), sha: Vec::new() };
        let Value::Bulk(Some(sha)) = client.command(&[b"SCRIPT", b"LOAD", SOURCE.as_bytes()]) else {
            panic!("the script does not load");
        };
        client.sha = sha;
        client
    }

    pub(crate) fn command(&mut self, parts: &[&[u8]]) -> Value {
        let mut bytes = Vec::new();
        write_command(&mut bytes, parts);
        self.send(&bytes);
        self.receive()
    }

    pub(crate) fn write_call(&self, bytes: &mut Vec<u8>, call: &Call, now: Option<u64>) {
        self.write_encoded(bytes, &encode(call, now));
    }

    /// Returns the raw reply of the script.
    pub(crate) fn evalsha(&mut self, encoded: &Encoded) -> Value {
        let mut bytes = Vec::new();
        self.write_encoded(&mut bytes, encoded);
        self.send(&bytes);
        self.receive()
    }

    fn write_encoded(&self, bytes: &mut Vec<u8>, encoded: &Encoded) {
        let count = encoded.keys.len().to_string();
        let mut parts: Vec<&[u8]> = vec![b"EVALSHA", &self.sha, count.as_bytes()];
        parts.extend(encoded.keys.iter().map(|key| &**key));
        parts.extend(encoded.args.iter().map(Vec::as_slice));
        write_command(bytes, &parts);
    }

    /// Makes one call by the server's clock, or at the given time.
    pub(crate) fn call(&mut self, call: &Call, now: Option<u64>) -> ScriptReply {
        let mut bytes = Vec::new();
        self.write_call(&mut bytes, call, now);
        self.send(&bytes);
        let value = self.receive();
        decode(call, value.clone()).unwrap_or_else(|error| panic!("{error}: {value:?}"))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        let number = || rest.parse::<i64>().unwrap();
        match kind {
            ":" => Value::Integer(number()),
            "+" => Value::Simple(rest.to_owned()),
            "-" => Value::Error(rest.to_owned()),
            "$" if number() < 0 => Value::Bulk(None),
            "$" => {
                let mut bytes = vec![0; number() as usize + 2];
                self.reader.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Value::Bulk(Some(bytes))
            }
            "*" if number() < 0 => Value::Array(None),
            "*" => Value::Array(Some((0..number()).map(|_| self.receive()).collect())),
            _ => panic!("not RESP2: {line}"),
        }
    }

    pub(crate) fn integer(&mut self, parts: &[&[u8]]) -> i64 {
        match self.command(parts) {
            Value::Integer(number) => number,
            other => panic!("not an integer: {other:?}"),
        }
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        match self.command(&[b"GET", key]) {
            Value::Bulk(value) => value,
            other => panic!("not a value: {other:?}"),
        }
    }
}

pub(crate) fn write_command(bytes: &mut Vec<u8>, parts: &[&[u8]]) {
    write!(bytes, "*{}\r\n", parts.len()).unwrap();
    for part in parts {
        write!(bytes, "${}\r\n", part.len()).unwrap();
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
}
