use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fmt, fs};

/// A program that was started for a test. Killed when dropped, so that a test that fails leaves nothing behind.
pub struct ChildProcess {
    child: Child,
    output: Option<BufReader<Box<dyn Read + Send>>>,
}

impl ChildProcess {
    /// Starts it. Its lines are read from stderr if that is piped, else from stdout.
    pub fn start(command: &mut Command) -> io::Result<ChildProcess> {
        let mut child = command.spawn()?;
        let stderr = child.stderr.take().map(|stderr| Box::new(stderr) as Box<dyn Read + Send>);
        let output = match stderr {
            Some(stderr) => Some(stderr),
            None => child.stdout.take().map(|stdout| Box::new(stdout) as Box<dyn Read + Send>),
        };
        Ok(ChildProcess { child, output: output.map(BufReader::new) })
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it writes, without its end; `None` once it has ended, or if nothing of it is piped.
    pub fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        let read = self.output.as_mut().map_or(Ok(0), |output| output.read_line(&mut line))?;
        Ok((read > 0).then(|| line.trim_end().to_owned()))
    }

    /// The address on the next line, behind `prefix`.
    pub fn address_behind(&mut self, prefix: &str) -> io::Result<SocketAddr> {
        let line = self.line()?.unwrap_or_default();
        let address = line.strip_prefix(prefix).and_then(|address| address.parse().ok());
        address.ok_or_else(|| io::Error::other(format!("{line:?} is not {prefix:?} and an address")))
    }

    /// Writes to its stdin, which is piped.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        self.child.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(text.as_bytes()))
    }

    /// Ends what it reads from its stdin.
    pub fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    /// Sends a signal by its name, such as `TERM`.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        // The program, because the system call would need unsafe code.
        let status = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("kill -{name}: {status}"))) }
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for its end; an error if it does not come within so long.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < at_most {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            sleep(Duration::from_millis(5));
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the program does not end"))
    }

    /// Ends it without a warning, as a loss of power does.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// A size that the system knows of it, in kilobytes: `VmRSS` is the memory that it holds, and `VmHWM` the most
    /// that it has held.
    pub fn size_kb(&self, member: &str) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let size = status.lines().find_map(|line| line.strip_prefix(member)?.strip_prefix(':')?.strip_suffix("kB"));
        let size = size.and_then(|kilobytes| kilobytes.trim().parse().ok());
        size.ok_or_else(|| io::Error::other(format!("there is no {member}")))
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
