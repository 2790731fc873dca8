//! A `tollgate serve` process that applications ask.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tollgate_testbed::ChildProcess;

use crate::client::Client;

const PAUSE_TIMEOUT: Duration = Duration::from_secs(20);

const POLICY: &str = "version: 1
identity: { api_key: { header: X-API-Key, trusted: true } }
deny: { client_ip: 127.0.0.7 }
rules:
  - { name: things, when: { path: /things }, key: client_ip, limit: 5/h }
  - { name: login, when: { method: POST, path: /login }, key: client_ip, limit: 2/h }
  - { name: per-key, key: api_key, limit: 1/h }
  - { name: queue, when: { path: /queue }, limit: 10/s, algorithm: leaky-bucket, queue: { size: 10, max_wait: 1s } }
";

pub(crate) struct Service {
    pub(crate) http: SocketAddr,
    pub(crate) process: ChildProcess,
}

impl Service {
    pub(crate) fn start() -> Service {
        Service::start_with(&[], &[])
    }

    /// Starts with additional flags and variables.
    pub(crate) fn start_with(flags: &[&str], variables: &[(&str, &str)]) -> Service {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args(["serve", "-", "--http", ":0", "--grpc", "off", "--resp", "off", "--admin", "off"]);
        command.args(flags).envs(variables.iter().copied());
        command.env_remove("NOTIFY_SOCKET").stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut process = ChildProcess::start(&mut command).unwrap();
        process.write(POLICY).unwrap();
        process.close_stdin();
        let http = process.address_behind("tollgate: http listening on http://").unwrap();
        process.drain_output();
        Service { http, process }
    }

    /// The number of connections that were accepted, with the one that asks.
    pub(crate) fn connections(&self) -> usize {
        let metrics = Client { host: 1, gateway: self.http }.get("/metrics").body;
        let total = "tollgate_connections_accepted_total{listener=\"http\"} ";
        metrics.lines().find_map(|line| line.strip_prefix(total)).unwrap().parse().unwrap()
    }

    /// Stops all threads: the socket accepts, and nothing answers.
    pub(crate) fn pause(&self) {
        self.process.signal("STOP").unwrap();
        let begun = Instant::now();
        while !self.is_paused() {
            assert!(begun.elapsed() < PAUSE_TIMEOUT, "the service does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_paused(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        threads.flatten().all(|thread| {
            // The state follows the name in parentheses. A thread may end meanwhile.
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
        })
    }

    pub(crate) fn resume(&self) {
        self.process.signal("CONT").unwrap();
    }
}
