//! Requests over keep-alive connections, one at a time on each.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::servers::Running;

/// The result of one turn.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// Responses per second.
    pub(crate) per_second: f64,
    /// The server's processor time for each.
    pub(crate) cpu_ns: f64,
}

pub(crate) const CONNECTIONS: usize = 32;

const REQUEST: &[u8] = b"GET /api/items HTTP/1.1\r\nhost: localhost\r\nx-user-id: alice\r\n\r\n";

/// The connections to one server.
pub(crate) struct Load {
    server: Running,
    connections: Vec<Connection>,
}

/// One connection, and the part of the current response that has been read.
struct Connection {
    stream: TcpStream,
    buffer: [u8; 2048],
    len: usize,
}

impl Load {
    pub(crate) fn connect(server: Running) -> Load {
        let connect = |_| {
            let stream = TcpStream::connect(server.address).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_nonblocking(true).unwrap();
            Connection { stream, buffer: [0; 2048], len: 0 }
        };
        let connections = (0..CONNECTIONS).map(connect).collect();
        Load { server, connections }
    }

    /// Sends requests for that long. It never sleeps: waking it up would be work for the server, and a slow server
    /// would have more of it than a fast one.
    pub(crate) fn run(&mut self, time: Duration) -> Sample {
        let (start, cpu_start_ns) = (Instant::now(), self.server.cpu_ns());
        let mut answers = 0_u64;
        self.connections.iter_mut().for_each(Connection::ask);
        while start.elapsed() < time {
            for connection in &mut self.connections {
                if connection.is_answered() {
                    connection.ask();
                    answers += 1;
                }
            }
        }
        let taken = start.elapsed();
        for connection in &mut self.connections {
            while !connection.is_answered() {}
        }
        Sample {
            per_second: answers as f64 / taken.as_secs_f64(),
            cpu_ns: (self.server.cpu_ns() - cpu_start_ns) as f64 / (answers + CONNECTIONS as u64) as f64,
        }
    }
}

impl Connection {
    fn ask(&mut self) {
        // A request is smaller than any socket's buffer.
        assert_eq!(self.stream.write(REQUEST).unwrap(), REQUEST.len());
    }

    /// Whether the response has arrived: a 200 with the body that the servers send.
    fn is_answered(&mut self) -> bool {
        match self.stream.read(&mut self.buffer[self.len..]) {
            Ok(0) => panic!("the server has closed the connection"),
            Ok(read) => self.len += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("{error}"),
        }
        let answer = &self.buffer[..self.len];
        if !answer.ends_with(b"\r\n\r\nhello") {
            return false;
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(answer));
        self.len = 0;
        true
    }
}

/// Pins the calling thread.
pub(crate) fn pin_to_core(core: usize) {
    #[allow(unsafe_code, reason = "the standard library cannot pin a thread")]
    // SAFETY: the set is initialised by CPU_ZERO's equivalent, zeroes, and lives through the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
