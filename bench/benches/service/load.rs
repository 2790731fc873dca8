//! Requests over connections that stay open, so many at a time on each.

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
    /// How many requests are under way on a connection.
    at_a_time: usize,
}

/// A connection that never waits.
pub(crate) struct Connection {
    stream: TcpStream,
    dialect: Box<dyn Dialect>,
    asked: Vec<u8>,
    /// Answers that are still to come.
    missing: usize,
    /// Here, because to make one anew for each look would cost more than the look.
    buffer: Box<[u8; 1 << 14]>,
}

impl<'a> Load<'a> {
    /// `dialect` makes what the connection of a number says, so many at a time.
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

    /// Asks for that long. It never sleeps: waking it up would be the server's
    /// work, and a slow server would have more of it than a quick one.
    pub(crate) fn run(&mut self, time: Duration) -> Sample {
        let (start, cpu_start_ns) = (Instant::now(), self.server.cpu_ns());
        let mut batches = 0_u64;
        self.connections.iter_mut().for_each(|connection| connection.ask(self.at_a_time));
        while start.elapsed() < time {
            for connection in &mut self.connections {
                if connection.is_answered() {
                    connection.ask(self.at_a_time);
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
        Connection { stream, dialect, asked: Vec::new(), missing: 0, buffer: Box::new([0; 1 << 14]) }
    }

    pub(crate) fn ask(&mut self, at_a_time: usize) {
        for _ in 0..at_a_time {
            self.dialect.ask(&mut self.asked);
        }
        self.missing = at_a_time;
        // A batch is smaller than any socket's buffer.
        assert_eq!(self.stream.write(&self.asked).unwrap(), self.asked.len());
        self.asked.clear();
    }

    /// Whether all answers have come.
    pub(crate) fn is_answered(&mut self) -> bool {
        match self.stream.read(&mut self.buffer[..]) {
            Ok(0) => panic!("the server has closed the connection"),
            Ok(read) => {
                // What the dialect has to say in return goes with the next request.
                self.missing -= self.dialect.hear(&self.buffer[..read], &mut self.asked);
                self.missing == 0
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.missing == 0,
            Err(error) => panic!("{error}"),
        }
    }
}
