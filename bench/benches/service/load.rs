//! Requests over keep-alive connections, with a fixed number in flight on each.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::dialect::Dialect;
use crate::process::Process;
use crate::rounds::Sample;

pub(crate) const CONNECTIONS: usize = 50;

/// The connections to one server.
pub(crate) struct Load<'a> {
    server: &'a Process,
    connections: Vec<Connection>,
    /// The number of requests in flight on a connection.
    at_a_time: usize,
}

/// A non-blocking connection.
pub(crate) struct Connection {
    stream: TcpStream,
    dialect: Box<dyn Dialect>,
    out: Vec<u8>,
    /// The number of outstanding responses.
    missing: usize,
    /// The read buffer; allocating one for each read would cost more than the read.
    buffer: Box<[u8; 1 << 14]>,
}

impl<'a> Load<'a> {
    /// Connects. `dialect` creates the protocol state of each connection by its number.
    pub(crate) fn connect(
        server: &'a Process,
        listener: &str,
        at_a_time: usize,
        dialect: impl Fn(usize) -> Box<dyn Dialect>,
    ) -> Load<'a> {
        let address = server.address(listener);
        let connections = (0..CONNECTIONS).map(|at| Connection::open(address, dialect(at))).collect();
        Load { server, connections, at_a_time }
    }

    /// Sends requests for that long. It never sleeps: waking it up would be work for the server, and a slow server
    /// would have more of it than a fast one.
    pub(crate) fn run(&mut self, time: Duration) -> Sample {
        let (start, cpu_start_ns) = (Instant::now(), self.server.cpu_ns());
        let mut batches = 0_u64;
        self.connections.iter_mut().for_each(|connection| connection.send(self.at_a_time));
        while start.elapsed() < time {
            for connection in &mut self.connections {
                if connection.is_answered() {
                    connection.send(self.at_a_time);
                    batches += 1;
                }
            }
        }
        let taken = start.elapsed();
        for connection in &mut self.connections {
            while !connection.is_answered() {}
        }
        let answered = |batches: u64| (batches * self.at_a_time as u64) as f64;
        Sample {
            per_second: answered(batches) / taken.as_secs_f64(),
            cpu_us: (self.server.cpu_ns() - cpu_start_ns) as f64 / 1e3 / answered(batches + CONNECTIONS as u64),
        }
    }
}

impl Connection {
    pub(crate) fn open(server: SocketAddr, mut dialect: Box<dyn Dialect>) -> Connection {
        let mut stream = TcpStream::connect(server).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut greeting = Vec::new();
        dialect.greet(&mut greeting);
        stream.write_all(&greeting).unwrap();
        stream.set_nonblocking(true).unwrap();
        Connection { stream, dialect, out: Vec::new(), missing: 0, buffer: Box::new([0; 1 << 14]) }
    }

    pub(crate) fn send(&mut self, at_a_time: usize) {
        for _ in 0..at_a_time {
            self.dialect.write_request(&mut self.out);
        }
        self.missing = at_a_time;
        // A batch is smaller than any socket's buffer.
        assert_eq!(self.stream.write(&self.out).unwrap(), self.out.len());
        self.out.clear();
    }

    /// Whether all responses have arrived.
    pub(crate) fn is_answered(&mut self) -> bool {
        match self.stream.read(&mut self.buffer[..]) {
            Ok(0) => panic!("the server has closed the connection"),
            Ok(read) => {
                // Bytes that the protocol requires in return are sent with the next request.
                self.missing -= self.dialect.count_responses(&self.buffer[..read], &mut self.out);
                self.missing == 0
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.missing == 0,
            Err(error) => panic!("{error}"),
        }
    }
}
