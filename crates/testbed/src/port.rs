use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::{env, io, process};

/// Below the ephemeral ports of the system, so that a restarted server finds its port free. The cluster bus port is
/// 10,000 higher, which is below them too.
const FIRST: u16 = 12_000;
const COUNT: u16 = 10_000;
const CLUSTER_BUS_OFFSET: u16 = 10_000;

static TRIED: AtomicU16 = AtomicU16::new(0);

/// A port that no other testbed on this machine uses until this is dropped.
#[derive(Debug)]
pub struct ReservedPort {
    number: u16,
    // The lock is released when the file is closed, even if the process is killed.
    _lock: File,
}

impl ReservedPort {
    /// Reserves a port on which nothing listens.
    pub fn new() -> io::Result<ReservedPort> {
        let directory = env::temp_dir().join("tollgate-ports");
        fs::create_dir_all(&directory)?;
        // Processes begin at different ports, so that they rarely try the same one.
        let begin = process::id().wrapping_mul(211) % u32::from(COUNT);
        for _ in 0..COUNT {
            let offset = (begin + u32::from(TRIED.fetch_add(1, Ordering::Relaxed))) % u32::from(COUNT);
            let number = FIRST + offset as u16;
            let lock = File::create(directory.join(number.to_string()))?;
            if lock.try_lock().is_ok() && is_free(number) && is_free(number + CLUSTER_BUS_OFFSET) {
                return Ok(ReservedPort { number, _lock: lock });
            }
        }
        Err(io::Error::other(format!("no free port from {FIRST} to {}", FIRST + COUNT - 1)))
    }

    /// Returns the number of the port.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
