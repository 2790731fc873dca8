use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// What a line begins with that a child says. The test runner has lines of its own.
const MARK: &str = "child says: ";
const TASK: &str = "TOLLGATE_TEST_CHILD";

/// This test program once more, as a process of its own that runs only its test `child`. Killed when dropped.
pub(crate) struct ChildProcess {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl ChildProcess {
    /// Starts it with a task, which its test finds with [`ChildProcess::task`].
    pub(crate) fn start(task: &str) -> ChildProcess {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture"])
            .env(TASK, task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(process.stdout.take().unwrap());
        ChildProcess { process, says }
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
            let mut line = String::new();
            if self.says.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(said) = line.trim_end().strip_prefix(MARK) {
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
        self.process.stdin.as_mut().unwrap().write_all(b"begin\n").unwrap();
    }

    /// All else that it says. It must end well.
    pub(crate) fn hear_all(mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let Some(next) = self.hear() {
            said.push(next);
        }
        assert!(self.process.wait().unwrap().success(), "a child failed after {said:?}");
        said
    }

    /// Ends it without a warning.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
