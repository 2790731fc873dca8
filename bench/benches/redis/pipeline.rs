//! A minimal Redis client: one connection, with whole batches of commands and replies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollgate_testbed::RedisServer;

/// A connection with pipelined commands.
pub(crate) struct Pipeline {
    reader: BufReader<TcpStream>,
}

impl Pipeline {
    pub(crate) fn connect(server: &RedisServer) -> Pipeline {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Pipeline { reader: BufReader::with_capacity(1 << 16, stream) }
    }

    /// Loads a script into the server. Returns its SHA-1.
    pub(crate) fn load(&mut self, source: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_command(&mut bytes, &[b"SCRIPT", b"LOAD", source]);
        self.send(&bytes);
        self.receive().unwrap()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// Reads this number of replies. None of them may be an error.
    pub(crate) fn skip(&mut self, answers: usize) {
        for _ in 0..answers {
            self.receive();
        }
    }

    /// Sends a command and returns its integer reply.
    pub(crate) fn integer(&mut self, parts: &[&[u8]]) -> u64 {
        let mut bytes = Vec::new();
        write_command(&mut bytes, parts);
        self.send(&bytes);
        String::from_utf8(self.receive().unwrap()).unwrap().parse().unwrap()
    }

    /// Reads the text of the next reply, if it is not a list.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).unwrap();
        line.truncate(line.len() - 2);
        assert!(line[0] != b'-', "the server refused: {}", String::from_utf8_lossy(&line));
        let length = || str::from_utf8(&line[1..]).unwrap().parse::<usize>().unwrap();
        match line[0] {
            b'$' => {
                let mut bytes = vec![0; length() + 2];
                self.reader.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Some(bytes)
            }
            b'*' => {
                self.skip(length());
                None
            }
            _ => Some(line.split_off(1)),
        }
    }

    /// Returns the replies per second when the same batches are sent repeatedly, two of them in flight: the server
    /// never waits, and this client does next to nothing.
    pub(crate) fn per_second(&mut self, batches: &[Vec<u8>], calls: usize, lines: usize, span: Duration) -> f64 {
        let begun = Instant::now();
        let mut batch = batches.iter().cycle();
        let mut answered = 0;
        self.send(batch.next().unwrap());
        while begun.elapsed() < span {
            self.send(batch.next().unwrap());
            self.skip_lines(calls * lines);
            answered += calls;
        }
        let elapsed = begun.elapsed();
        self.skip_lines(calls * lines);
        answered as f64 / elapsed.as_secs_f64()
    }

    /// Reads this number of lines, which is cheaper than parsing replies.
    fn skip_lines(&mut self, mut lines: usize) {
        while lines > 0 {
            let bytes = self.reader.fill_buf().unwrap();
            assert!(!bytes.is_empty() && !bytes.contains(&b'-'), "the server refused, or left");
            // The rest belongs to the next batch.
            let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').take(lines);
            let (count, length) = ends.fold((0, bytes.len()), |(count, length), (at, _)| {
                (count + 1, if count + 1 == lines { at + 1 } else { length })
            });
            lines -= count;
            self.reader.consume(length);
        }
    }
}

/// Encodes a command.
pub(crate) fn write_command(bytes: &mut Vec<u8>, parts: &[&[u8]]) {
    write!(bytes, "*{}\r\n", parts.len()).unwrap();
    for part in parts {
        write!(bytes, "${}\r\n", part.len()).unwrap();
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
}
