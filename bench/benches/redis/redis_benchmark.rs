use std::fmt::Write;
use std::process::Command;

use tollgate_testbed::RedisServer;

use crate::pipeline::Pipeline;
use crate::recorder::Recorded;

/// redis-benchmark, which sends one call repeatedly.
///
/// It cannot send zero bytes, and the argument has some. So it calls the same script with the argument written into
/// it, and sends a text of the same length instead. The program draws the keys, from the same number of keys.
pub(crate) struct RedisBenchmark<'a> {
    server: &'a RedisServer,
    script: String,
    length: usize,
    keys: usize,
}

impl<'a> RedisBenchmark<'a> {
    pub(crate) fn new(server: &'a RedisServer, recorded: &Recorded, keys: usize) -> RedisBenchmark<'a> {
        let source = String::from_utf8(recorded.source.clone()).unwrap();
        let mut constant = String::from("local argument = '");
        recorded.argument.iter().for_each(|byte| write!(constant, "\\{byte:03}").unwrap());
        constant.push('\'');
        let taken = "local argument = ARGV[1]";
        assert_eq!(source.matches(taken).count(), 1, "the script takes its argument in another way");
        let source = source.replace(taken, &constant).into_bytes();
        let script = Pipeline::connect(server).load(&source);
        let script = String::from_utf8(script).unwrap();
        RedisBenchmark { server, script, length: recorded.argument.len(), keys }
    }

    /// Returns the calls per second, or `None` if the program is missing.
    pub(crate) fn per_second(&self, connections: u32, pipeline: u32, calls: u64) -> Option<f64> {
        let output = Command::new("redis-benchmark")
            .args(["-p", &self.server.address().port().to_string(), "--csv", "-r", &self.keys.to_string()])
            .args(["-n", &calls.to_string(), "-c", &connections.to_string(), "-P", &pipeline.to_string()])
            // The placeholder becomes twelve digits, so the key is as long as the others.
            .args(["EVALSHA", &self.script, "1", "tollgate:one:{__rand_int__}", &"-".repeat(self.length)])
            .output()
            .ok()?;
        assert!(output.status.success(), "redis-benchmark: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().last()?.split("\",\"").nth(1)?.parse().ok()
    }
}
