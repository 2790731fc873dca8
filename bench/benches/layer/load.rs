//! Requests over kept-alive connections, one at a time on each.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub(crate) const CONNECTIONS: usize = 32;

const REQUEST: &[u8] = b"GET /api/items HTTP/1.1\r\nhost: localhost\r\nx-user-id: alice\r\n\r\n";

/// The connections to one server.
pub(crate) struct Load {
    connections: Vec<TcpStream>,
    buffer: Vec<u8>,
}

impl Load {
    pub(crate) fn connect(address: SocketAddr) -> Load {
        let connect = |_| {
            let connection = TcpStream::connect(address).unwrap();
            connection.set_nodelay(true).unwrap();
            connection
        };
        Load { connections: (0..CONNECTIONS).map(connect).collect(), buffer: vec![0; 4096] }
    }

    /// Asks for that long; answers a second. While one answer is read, the
    /// server has the requests of all other connections.
    pub(crate) fn run(&mut self, time: Duration) -> f64 {
        let start = Instant::now();
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
        answers as f64 / taken.as_secs_f64()
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
