use std::io::Write;
use std::process::{Command, Stdio};

use tollgate_testbed::RedisServer;

/// The server's own benchmark program, which sends one call over and over.
///
/// It takes the argument from its standard input, because a command line
/// cannot carry zero bytes. For the same reason it cannot vary the key: it
/// looks for the place of a random number only up to the first zero byte. So
/// it asks about one key; that it is one is rather to its advantage.
pub(crate) struct RedisBenchmark<'a> {
    pub(crate) server: &'a RedisServer,
    pub(crate) script: &'a [u8],
    pub(crate) key: &'a str,
    pub(crate) argument: &'a [u8],
}

impl RedisBenchmark<'_> {
    /// Calls a second; nothing if the program is not there.
    pub(crate) fn per_second(&self, connections: u32, pipeline: u32, calls: u64) -> Option<f64> {
        let mut process = Command::new("redis-benchmark")
            .args(["-p", &self.server.address().port().to_string(), "--csv", "-x"])
            .args(["-n", &calls.to_string(), "-c", &connections.to_string(), "-P", &pipeline.to_string()])
            .args(["EVALSHA", str::from_utf8(self.script).unwrap(), "1", self.key])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        process.stdin.take()?.write_all(self.argument).ok()?;
        let output = process.wait_with_output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().last()?.split("\",\"").nth(1)?.parse().ok()
    }
}
