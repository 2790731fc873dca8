//! Redis itself, where it is installed.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::servers::{Running, last_core};

pub(crate) struct Redis {
    child: Child,
    address: SocketAddr,
}

/// Starts it on the last core; `None`, with a word about it, where it cannot be run.
pub(crate) fn start() -> Option<Redis> {
    // Free a moment ago; nobody else here takes ports.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &last_core().to_string(), "redis-server", "--port", &port.to_string()]);
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    let child = match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("without Redis: {error}");
            return None;
        }
    };
    let redis = Redis { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) };
    for _ in 0..100 {
        if TcpStream::connect(redis.address).is_ok() {
            return Some(redis);
        }
        thread::sleep(Duration::from_millis(50));
    }
    eprintln!("without Redis: redis-server does not listen");
    None
}

impl Redis {
    pub(crate) fn running(&self) -> Running {
        Running { address: self.address, schedstat: format!("/proc/{}/schedstat", self.child.id()) }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
