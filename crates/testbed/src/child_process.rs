use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use std::{fmt, fs};

/// A program started for a test. Killed when dropped, so that a failed test leaves no process behind.
pub struct ChildProcess {
    child: Child,
    output: Option<BufReader<Box<dyn Read + Send>>>,
}

impl ChildProcess {
    /// Starts the program. Its output is read from stderr if that is piped, otherwise from stdout.
    pub fn start(command: &mut Command) -> io::Result<ChildProcess> {
        let mut child = command.spawn()?;
        let stderr = child.stderr.take().map(|stderr| Box::new(stderr) as Box<dyn Read + Send>);
        let output = match stderr {
            Some(stderr) => Some(stderr),
            None => child.stdout.take().map(|stdout| Box::new(stdout) as Box<dyn Read + Send>),
        };
        Ok(ChildProcess { child, output: output.map(BufReader::new) })
    }

    /// Returns the process ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads the next line of output, without its end; `None` at the end of the output, or if no output is piped.
    pub fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        let read = self.output.as_mut().map_or(Ok(0), |output| output.read_line(&mut line))?;
        Ok((read > 0).then(|| line.trim_end().to_owned()))
    }

    /// Reads the address that follows `prefix` on the next line.
    pub fn address_behind(&mut self, prefix: &str) -> io::Result<SocketAddr> {
        let line = self.line()?.unwrap_or_default();
        let address = line.strip_prefix(prefix).and_then(|address| address.parse().ok());
        address.ok_or_else(|| io::Error::other(format!("expected {prefix:?} and an address, read {line:?}")))
    }

    /// Reads and drops all further output on a thread, so that the program never waits for a reader.
    pub fn drain_output(&mut self) {
        if let Some(mut output) = self.output.take() {
            thread::spawn(move || io::copy(&mut output, &mut io::sink()));
        }
    }

    /// Writes to stdin; does nothing if it is not piped.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        self.child.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(text.as_bytes()))
    }

    /// Closes stdin, so that the program reads its end.
    pub fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    /// Sends a signal, given by its name, such as `TERM`.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        // By the program `kill`, because the system call would need unsafe code.
        let status = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("kill -{name}: {status}"))) }
    }

    /// Returns the exit status, if the program has ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits until the program ends; an error after `at_most`.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < at_most {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            sleep(Duration::from_millis(5));
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the program has not ended in time"))
    }

    /// Kills the program with SIGKILL, so that it cannot clean up, and waits for its end.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Returns a size from `/proc/<pid>/status`, in kilobytes: `VmRSS` is the resident memory, `VmHWM` its peak.
    pub fn size_kb(&self, member: &str) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let size = status.lines().find_map(|line| line.strip_prefix(member)?.strip_prefix(':')?.strip_suffix("kB"));
        let size = size.and_then(|kilobytes| kilobytes.trim().parse().ok());
        size.ok_or_else(|| io::Error::other(format!("no {member} in /proc/{}/status", self.id())))
    }
}

impl fmt::Debug for ChildProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChildProcess").field(&self.id()).finish()
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
