use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::{env, io, process};

/// Below the ports that the system gives to outgoing connections, so that a
/// server that is started again finds its port free. A cluster's nodes talk to
/// each other 10,000 above, which is below them too.
const FIRST: u16 = 12_000;
const COUNT: u16 = 10_000;
const CLUSTER_BUS: u16 = 10_000;

static TRIED: AtomicU16 = AtomicU16::new(0);

/// A port that no other testbed on this machine uses as long as this lives.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    number: u16,
    // The lock ends with the file, also when the process is killed.
    _lock: File,
}

impl ReservedPort {
    pub(crate) fn new() -> io::Result<ReservedPort> {
        let directory = env::temp_dir().join("tollgate-ports");
        fs::create_dir_all(&directory)?;
        // Processes begin at different places, so that they rarely try the same.
        let begin = process::id().wrapping_mul(211) % u32::from(COUNT);
        for _ in 0..COUNT {
            let offset = (begin + u32::from(TRIED.fetch_add(1, Ordering::Relaxed))) % u32::from(COUNT);
            let number = FIRST + offset as u16;
            let lock = File::create(directory.join(number.to_string()))?;
            if lock.try_lock().is_ok() && is_free(number) && is_free(number + CLUSTER_BUS) {
                return Ok(ReservedPort { number, _lock: lock });
            }
        }
        Err(io::Error::other("no port is free"))
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
