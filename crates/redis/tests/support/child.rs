use std::env;
use std::process::{Command, Stdio};
use std::time::Duration;

use tollgate_testbed::ChildProcess as Process;

/// What a line begins with that a child says. The test runner has lines of its own.
const MARK: &str = "child says: ";
const TASK: &str = "TOLLGATE_TEST_CHILD";

/// A child that has said all it has to say ends soon.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// This test program once more, as a process of its own that runs only its test `child`. Killed when dropped.
pub(crate) struct ChildProcess(Process);

impl ChildProcess {
    /// Starts it with a task, which its test finds with [`ChildProcess::task`].
    pub(crate) fn start(task: &str) -> ChildProcess {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["child", "--exact", "--nocapture"]).env(TASK, task).stdin(Stdio::piped()).stdout(Stdio::piped());
        ChildProcess(Process::start(&mut command).unwrap())
    }

    /// What this process is to do, if it is a child.
    pub(crate) fn task() -> Option<String> {
        env::var(TASK).ok()
    }

    /// Says something to the parent.
    pub(crate) fn say(text: &str) {
        // The runner may have begun a line.
        println!("\n{MARK}{text}");
    }

    /// Says that it is ready, and waits until all are.
    pub(crate) fn wait_for_the_others() {
        ChildProcess::say("ready");
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }

    /// The next thing that it says; nothing once it has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        loop {
            let line = self.0.line().unwrap()?;
            if let Some(said) = line.strip_prefix(MARK) {
                return Some(said.to_owned());
            }
        }
    }

    /// Waits until it is ready.
    pub(crate) fn is_ready(&mut self) {
        assert_eq!(self.hear().as_deref(), Some("ready"));
    }

    /// Lets it begin.
    pub(crate) fn begin(&mut self) {
        self.0.write("begin\n").unwrap();
    }

    /// All else that it says. It must end well.
    pub(crate) fn hear_all(mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let Some(next) = self.hear() {
            said.push(next);
        }
        assert!(self.0.wait(ENDS_WITHIN).unwrap().success(), "a child failed after {said:?}");
        said
    }

    /// Ends it without a warning.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
    }
}
