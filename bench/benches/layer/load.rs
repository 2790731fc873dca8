//! Requests over kept-alive connections, one at a time on each.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::servers::Running;

/// What one turn has shown.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// Answers a second.
    pub(crate) per_second: f64,
    /// What the server's core spent on each.
    pub(crate) cpu_ns: f64,
}

pub(crate) const CONNECTIONS: usize = 32;

const REQUEST: &[u8] = b"GET /api/items HTTP/1.1\r\nhost: localhost\r\nx-user-id: alice\r\n\r\n";

/// The connections to one server.
pub(crate) struct Load {
    server: Running,
    connections: Vec<TcpStream>,
    buffer: Vec<u8>,
}

impl Load {
    pub(crate) fn connect(server: Running) -> Load {
        let connect = |_| {
            let connection = TcpStream::connect(server.address).unwrap();
            connection.set_nodelay(true).unwrap();
            connection
        };
        let connections = (0..CONNECTIONS).map(connect).collect();
        Load { server, connections, buffer: vec![0; 4096] }
    }

    /// Asks for that long. While one answer is read, the server has the
    /// requests of all other connections.
    pub(crate) fn run(&mut self, time: Duration) -> Sample {
        let (start, cpu_start_ns) = (Instant::now(), self.server.cpu_ns());
        let mut answers = 0_u64;
        for connection in &mut self.connections {
            connection.write_all(REQUEST).unwrap();
        }
        while start.elapsed() < time {
            for connection in &mut self.connections {
                read_answer(connection, &mut self.buffer);
                connection.write_all(REQUEST).unwrap();
            }
            answers += CONNECTIONS as u64;
        }
        let taken = start.elapsed();
        for connection in &mut self.connections {
            read_answer(connection, &mut self.buffer);
        }
        Sample {
            per_second: answers as f64 / taken.as_secs_f64(),
            cpu_ns: (self.server.cpu_ns() - cpu_start_ns) as f64 / (answers + CONNECTIONS as u64) as f64,
        }
    }
}

/// Reads one answer, which must be a 200 with the body that the servers send.
fn read_answer(connection: &mut TcpStream, buffer: &mut [u8]) {
    let mut len = 0;
    loop {
        let read = connection.read(&mut buffer[len..]).unwrap();
        assert!(read > 0, "the server has closed the connection");
        len += read;
        if buffer[..len].ends_with(b"\r\n\r\nhello") {
            assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer[..len]));
            return;
        }
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
