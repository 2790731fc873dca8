//! Commands over connections that stay open, so many at a time on each.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::Contestant;
use crate::servers::Running;

/// What one turn has shown.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// Answers a second.
    pub(crate) per_second: f64,
    /// What the server's core spent on each.
    pub(crate) cpu_us: f64,
}

pub(crate) const CONNECTIONS: usize = 50;

/// The connections to one server.
pub(crate) struct Load {
    server: Running,
    connections: Vec<Connection>,
    pipeline: usize,
}

struct Connection {
    stream: TcpStream,
    /// Commands that are sent together, each with a key of its own.
    batch: Vec<u8>,
    mark: u8,
    /// Answers that are still to come.
    missing: usize,
    /// Here, because to make one anew for each look would cost more than the look.
    buffer: Box<[u8; 4096]>,
}

impl Load {
    pub(crate) fn connect(contestant: &Contestant, pipeline: usize) -> Load {
        let connect = |connection: usize| {
            let stream = TcpStream::connect(contestant.server.address).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_nonblocking(true).unwrap();
            let batch = (0..pipeline).flat_map(|at| (contestant.command)(connection * pipeline + at)).collect();
            Connection { stream, batch, mark: contestant.mark, missing: 0, buffer: Box::new([0; 4096]) }
        };
        let connections = (0..CONNECTIONS).map(connect).collect();
        Load { server: contestant.server.clone(), connections, pipeline }
    }

    /// Asks for that long. It never sleeps: waking it up would be the server's
    /// work, and a slow server would have more of it than a quick one.
    pub(crate) fn run(&mut self, time: Duration) -> Sample {
        let (start, cpu_start_ns) = (Instant::now(), self.server.cpu_ns());
        let mut batches = 0_u64;
        self.connections.iter_mut().for_each(|connection| connection.ask(self.pipeline));
        while start.elapsed() < time {
            for connection in &mut self.connections {
                if connection.is_answered() {
                    connection.ask(self.pipeline);
                    batches += 1;
                }
            }
        }
        let taken = start.elapsed();
        for connection in &mut self.connections {
            while !connection.is_answered() {}
        }
        let answered = |batches: u64| (batches * self.pipeline as u64) as f64;
        Sample {
            per_second: answered(batches) / taken.as_secs_f64(),
            cpu_us: (self.server.cpu_ns() - cpu_start_ns) as f64 / 1e3 / answered(batches + CONNECTIONS as u64),
        }
    }
}

impl Connection {
    fn ask(&mut self, pipeline: usize) {
        // A batch is smaller than any socket's buffer.
        assert_eq!(self.stream.write(&self.batch).unwrap(), self.batch.len());
        self.missing = pipeline;
    }

    /// Whether all answers have come.
    fn is_answered(&mut self) -> bool {
        match self.stream.read(&mut self.buffer[..]) {
            Ok(0) => panic!("the server has closed the connection"),
            Ok(read) => {
                let answers = &self.buffer[..read];
                assert!(!answers.contains(&b'-') || self.mark == b'*', "{}", String::from_utf8_lossy(answers));
                self.missing -= answers.iter().filter(|byte| **byte == self.mark).count();
                self.missing == 0 && answers.ends_with(b"\r\n")
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
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
