use std::env;
use std::process::{Command, Stdio};
use std::time::Duration;

use tollgate_testbed::ChildProcess as Process;

/// The prefix of a message of a child. The test runner writes other lines.
const PREFIX: &str = "child: ";
const TASK: &str = "TOLLGATE_TEST_CHILD";

/// The timeout for the end of a child after its last message.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// A second process of this test program, which runs only its test `child`. Killed when dropped.
pub(crate) struct ChildProcess(Process);

impl ChildProcess {
    /// Starts a child with a task, which its test reads with [`ChildProcess::task`].
    pub(crate) fn start(task: &str) -> ChildProcess {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["child", "--exact", "--nocapture"]).env(TASK, task).stdin(Stdio::piped()).stdout(Stdio::piped());
        ChildProcess(Process::start(&mut command).unwrap())
    }

    /// Returns the task of this process, if it is a child.
    pub(crate) fn task() -> Option<String> {
        env::var(TASK).ok()
    }

    /// Sends a message to the parent.
    pub(crate) fn send(text: &str) {
        // The runner may have begun a line.
        println!("\n{PREFIX}{text}");
    }

    /// Reports that this child is ready, and waits until the parent lets it begin.
    pub(crate) fn wait_for_start() {
        ChildProcess::send("ready");
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }

    /// Receives the next message; `None` once the child has ended.
    pub(crate) fn receive(&mut self) -> Option<String> {
        loop {
            let line = self.0.line().unwrap()?;
            if let Some(message) = line.strip_prefix(PREFIX) {
                return Some(message.to_owned());
            }
        }
    }

    /// Waits until the child is ready.
    pub(crate) fn wait_until_ready(&mut self) {
        assert_eq!(self.receive().as_deref(), Some("ready"));
    }

    /// Lets the child begin.
    pub(crate) fn begin(&mut self) {
        self.0.write("begin\n").unwrap();
    }

    /// Receives all further messages. Panics if the child fails.
    pub(crate) fn receive_all(mut self) -> Vec<String> {
        let mut messages = Vec::new();
        while let Some(next) = self.receive() {
            messages.push(next);
        }
        assert!(self.0.wait(END_TIMEOUT).unwrap().success(), "a child failed after {messages:?}");
        messages
    }

    /// Sends a signal to the child, given by its name.
    pub(crate) fn signal(&self, name: &str) {
        self.0.signal(name).unwrap();
    }

    /// Kills the child with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
    }
}
