//! The program while it serves.

use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tollgate_testbed::ChildProcess;

/// Longer than the service may take to drain.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Running {
    process: ChildProcess,
    pub(crate) http: SocketAddr,
    /// If it was told to listen there.
    pub(crate) grpc: Option<SocketAddr>,
    /// If it was told to listen there.
    pub(crate) resp: Option<SocketAddr>,
    pub(crate) admin: SocketAddr,
}

pub(crate) fn tollgate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn output(arguments: &[&str]) -> Output {
    tollgate(arguments).output().unwrap()
}

impl Running {
    /// Serves on any free ports, and returns once it has said which.
    pub(crate) fn serve() -> Running {
        Running::serve_with(&["--grpc", "off", "--resp", "off"])
    }

    pub(crate) fn serve_with(more: &[&str]) -> Running {
        Running::serve_in(&[], more)
    }

    /// With these environment variables.
    pub(crate) fn serve_in(environment: &[(&str, &str)], more: &[&str]) -> Running {
        let mut command = tollgate(&["serve", "--http", ":0", "--admin", ":0"]);
        command.env_remove("NOTIFY_SOCKET").envs(environment.iter().copied()).args(more);
        Running::start(command)
    }

    /// With no more than so many open files.
    pub(crate) fn serve_with_files(open_files: usize) -> Running {
        Running::serve_after(&format!("ulimit -n {open_files}"))
    }

    /// With no more than so many unless it asks for more.
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

    fn start(mut command: Command) -> Running {
        let mut process = ChildProcess::start(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
        let mut listening = |name: &str, scheme: &str| {
            let line = process.line().unwrap().unwrap_or_default();
            // A log in JSON says the same in a member of its lines.
            let line = match serde_json::from_str::<serde_json::Value>(&line) {
                Ok(said) => format!("tollgate: {}", said["message"].as_str().unwrap_or_default()),
                Err(_) => line,
            };
            let address = line.strip_prefix(&format!("tollgate: {name} listening on {scheme}://"));
            address.unwrap_or_else(|| panic!("{line}")).parse().unwrap()
        };
        let http = listening("http", "http");
        let given: Vec<_> = command.get_args().collect();
        let is_on = |listener: &str| !given.windows(2).any(|pair| pair == [listener, "off"]);
        let grpc = is_on("--grpc").then(|| listening("grpc", "http"));
        let resp = is_on("--resp").then(|| listening("resp", "redis"));
        let admin = listening("admin", "http");
        Running { process, http, grpc, resp, admin }
    }

    /// The next line it says of itself, and not of rules or requests; without its time.
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

    /// All lines up to the first of an event, without their times; then it is ended.
    pub(crate) fn lines_until(mut command: Command, event: &str) -> Vec<String> {
        let mut process = ChildProcess::start(command.stdout(Stdio::null()).stderr(Stdio::piped())).unwrap();
        let is_before = |line: &String| !line.is_empty() && !line.starts_with(&format!("tollgate: {event} "));
        let lines = std::iter::from_fn(|| process.line().unwrap());
        lines.take_while(is_before).map(without_time).collect()
    }

    /// The next line it says; empty if there will be none.
    pub(crate) fn any_line(&mut self) -> String {
        self.process.line().unwrap().unwrap_or_default()
    }

    /// Sends a signal by its name, as an operator does.
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name).unwrap();
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The memory that it holds.
    pub(crate) fn resident_kb(&self) -> u64 {
        self.process.size_kb("VmRSS").unwrap()
    }

    /// The most memory that it has held since it began.
    pub(crate) fn peak_resident_kb(&self) -> u64 {
        self.process.size_kb("VmHWM").unwrap()
    }

    /// Waits for its end, and returns its exit code.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.process.wait(PATIENCE).unwrap().code()
    }
}

/// Whether a line says what is true of this machine and not of the program: how many files may be open here.
fn is_about_this_machine(line: &str) -> bool {
    line.contains("the limit on open files is ")
}

/// `tollgate: error: ..` for `tollgate: error time=..: ..`.
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
