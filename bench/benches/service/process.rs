//! A server as a separate process on the last core, and its resource usage.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tollgate_testbed::ChildProcess;

/// A server that runs until this is dropped.
pub(crate) struct Process {
    child: ChildProcess,
    addresses: Vec<(String, SocketAddr)>,
}

impl Process {
    /// Starts this program as the server of that name: see `served.rs`.
    pub(crate) fn serve(name: &str, more: &[&str]) -> Process {
        let program = std::env::current_exe().unwrap();
        let mut command = on_the_last_core(program.to_str().unwrap());
        command.args(["--serve", name]).args(more).stdout(Stdio::piped());
        let mut child = ChildProcess::start(&mut command).unwrap();
        let mut addresses = Vec::new();
        while let Some(line) = child.line().unwrap() {
            let Some((listener, address)) = line.split_once(' ') else { break };
            addresses.push((listener.to_owned(), address.parse().unwrap()));
        }
        assert!(!addresses.is_empty(), "{name} does not listen");
        Process { child, addresses }
    }

    /// Starts another program with a port of this machine. Prints a message and returns `None` if it cannot run.
    pub(crate) fn peer(program: &str, arguments: impl FnOnce(u16) -> Vec<String>) -> Option<Process> {
        // The port was free a moment ago, and no other process here takes ports.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut command = on_the_last_core(program);
        command.args(arguments(port)).stdout(Stdio::null()).stderr(Stdio::null());
        let child = ChildProcess::start(&mut command).ok()?;
        let mut peer = Process { child, addresses: vec![(String::new(), address)] };
        for _ in 0..100 {
            if TcpStream::connect(address).is_ok() {
                return Some(peer);
            }
            if peer.child.ended().unwrap().is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        eprintln!("{program} is not installed, or does not listen");
        None
    }

    /// Returns the address of a listener.
    pub(crate) fn address(&self, listener: &str) -> SocketAddr {
        self.addresses.iter().find(|(name, _)| name == listener).unwrap().1
    }

    /// Returns the processor time of all its threads in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let of_thread = |path: std::path::PathBuf| {
            // A thread may end meanwhile.
            let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
            text.split_whitespace().next().map_or(0, |ns| ns.parse::<u64>().unwrap())
        };
        threads.map(|thread| of_thread(thread.unwrap().path())).sum()
    }

    /// Returns its resident memory in megabytes.
    pub(crate) fn resident_mb(&self) -> u64 {
        self.child.size_kb("VmRSS").unwrap() / 1024
    }

    /// Returns its peak memory in megabytes since the last `forget_peak`.
    pub(crate) fn peak_mb(&self) -> u64 {
        self.child.size_kb("VmHWM").unwrap() / 1024
    }

    /// Resets the peak.
    pub(crate) fn forget_peak(&self) {
        // If the system does not allow it, the peak is that of the whole run.
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5");
    }
}

fn on_the_last_core(program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &last_core().to_string(), program]).stdin(Stdio::null());
    command
}

/// Returns the core for servers; the load generator has the first.
fn last_core() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get) - 1
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
