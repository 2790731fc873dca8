//! A running `tollgate serve` process.

use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tollgate_testbed::ChildProcess;

/// Longer than the drain timeout of the service.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Running {
    process: ChildProcess,
    pub(crate) http: SocketAddr,
    /// `None` if the listener is off.
    pub(crate) grpc: Option<SocketAddr>,
    /// `None` if the listener is off.
    pub(crate) resp: Option<SocketAddr>,
    pub(crate) admin: SocketAddr,
}

pub(crate) fn tollgate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the program until it exits.
pub(crate) fn output(arguments: &[&str]) -> Output {
    tollgate(arguments).output().unwrap()
}

impl Running {
    /// Starts the service on free ports, and returns when it has logged them.
    pub(crate) fn serve() -> Running {
        Running::serve_with(&["--grpc", "off", "--resp", "off"])
    }

    pub(crate) fn serve_with(more: &[&str]) -> Running {
        Running::serve_in(&[], more)
    }

    /// Starts the service with these environment variables.
    pub(crate) fn serve_in(environment: &[(&str, &str)], more: &[&str]) -> Running {
        let mut command = tollgate(&["serve", "--http", ":0", "--admin", ":0"]);
        command.env_remove("NOTIFY_SOCKET").envs(environment.iter().copied()).args(more);
        Running::start(command)
    }

    /// Starts the service with a hard limit on open files.
    pub(crate) fn serve_with_files(open_files: usize) -> Running {
        Running::serve_after(&format!("ulimit -n {open_files}"))
    }

    /// Starts the service with a soft limit on open files.
    pub(crate) fn serve_with_soft_limit_of_files(open_files: usize) -> Running {
        Running::serve_after(&format!("ulimit -Sn {open_files}"))
    }

    fn serve_after(shell: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{shell}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_tollgate")]);
        command.args(["serve", "--http", ":0", "--admin", ":0", "--grpc", "off", "--resp", "off", "--threads", "2"]);
        command.stdin(Stdio::null());
        Running::start(command)
    }

    /// Starts `serve` or `demo`.
    pub(crate) fn start(mut command: Command) -> Running {
        let mut process = ChildProcess::start(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
        let mut listening = |name: &str, scheme: &str| {
            let line = process.line().unwrap().unwrap_or_default();
            // A JSON log has the same text in the member `message`.
            let line = match serde_json::from_str::<serde_json::Value>(&line) {
                Ok(json) => format!("tollgate: {}", json["message"].as_str().unwrap_or_default()),
                Err(_) => line,
            };
            let address = line.strip_prefix(&format!("tollgate: {name} listening on {scheme}"));
            let address = address.and_then(|rest| rest.strip_prefix("s://").or_else(|| rest.strip_prefix("://")));
            address.unwrap_or_else(|| panic!("{line}")).parse().unwrap()
        };
        let http = listening("http", "http");
        let given: Vec<_> = command.get_args().collect();
        let is_on = |listener: &str| given[0] != "demo" && !given.windows(2).any(|pair| pair == [listener, "off"]);
        let grpc = is_on("--grpc").then(|| listening("grpc", "http"));
        let resp = is_on("--resp").then(|| listening("resp", "redis"));
        let admin = listening("admin", "http");
        Running { process, http, grpc, resp, admin }
    }

    /// The next log line that is not about rules or requests, without its time.
    pub(crate) fn line(&mut self) -> String {
        loop {
            let line = without_time(self.any_line());
            let is_of = |what: &str| line.starts_with(&format!("tollgate: {what} "));
            if !["rule", "violation", "left_out", "burst", "refused_call"].into_iter().any(is_of)
                && !is_about_this_machine(&line)
            {
                return line;
            }
        }
    }

    /// The next line of an event.
    pub(crate) fn any_line_of(&mut self, event: &str) -> String {
        let is_of = |line: &String| line.is_empty() || line.starts_with(&format!("tollgate: {event} "));
        std::iter::repeat_with(|| self.any_line()).find(is_of).unwrap_or_default()
    }

    /// All lines before the first of an event, without their times; then the process is killed.
    pub(crate) fn lines_until(mut command: Command, event: &str) -> Vec<String> {
        let mut process = ChildProcess::start(command.stdout(Stdio::null()).stderr(Stdio::piped())).unwrap();
        let is_before = |line: &String| !line.is_empty() && !line.starts_with(&format!("tollgate: {event} "));
        let lines = std::iter::from_fn(|| process.line().unwrap());
        lines.take_while(is_before).map(without_time).collect()
    }

    /// The next line of the log; empty at its end.
    pub(crate) fn any_line(&mut self) -> String {
        self.process.line().unwrap().unwrap_or_default()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name).unwrap();
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The resident memory.
    pub(crate) fn resident_kb(&self) -> u64 {
        self.process.size_kb("VmRSS").unwrap()
    }

    /// The peak of the resident memory.
    pub(crate) fn peak_resident_kb(&self) -> u64 {
        self.process.size_kb("VmHWM").unwrap()
    }

    /// Waits until the process exits, and returns its exit code.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.process.wait(EXIT_TIMEOUT).unwrap().code()
    }
}

/// Whether a line depends on the machine: the limit on open files.
fn is_about_this_machine(line: &str) -> bool {
    line.contains("the limit on open files is ")
}

/// Returns `tollgate: error: ..` for `tollgate: error time=..: ..`.
fn without_time(line: String) -> String {
    for level in ["warning", "error"] {
        if let Some(rest) = line.strip_prefix(&format!("tollgate: {level} time=")) {
            let (time, message) = rest.split_once(": ").unwrap();
            assert!(time.ends_with('Z'), "{line}");
            return format!("tollgate: {level}: {message}");
        }
    }
    line
}
