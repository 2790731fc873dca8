//! A `tollgate serve` process with a policy file, whose page a script opens.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tollgate_testbed::{ChildProcess, TemporaryDirectory};

/// A script that takes longer has failed. All of them together take less than a minute.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(100);

pub(crate) const POLICY: &str = include_str!("policy.yaml");

/// The admin token of a service that requires one.
pub(crate) const TOKEN: &str = "a-token-of-an-operator";

pub(crate) struct PageService {
    process: Option<ChildProcess>,
    http: SocketAddr,
    admin: SocketAddr,
    directory: TemporaryDirectory,
    arguments: Vec<String>,
}

impl PageService {
    /// Serves the policy with these flags.
    pub(crate) fn serve(arguments: &[&str]) -> PageService {
        let directory = TemporaryDirectory::new("page").unwrap();
        std::fs::write(directory.path().join("policy.yaml"), POLICY).unwrap();
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let (process, http, admin) = start(&directory.path().join("policy.yaml"), ":0", ":0", &arguments);
        PageService { process: Some(process), http, admin, directory, arguments }
    }

    fn policy(&self) -> PathBuf {
        self.directory.path().join("policy.yaml")
    }

    /// Runs a script of `script/`, which must succeed. It may ask to stop the service, and to start it again on the same
    /// ports.
    pub(crate) fn run(&mut self, script: &str) {
        let mut node = self.node(script);
        while let Some(line) = node.line().unwrap() {
            match line.as_str() {
                "ask: stop" => self.process = None,
                "ask: start" => {
                    let (http, admin) = (self.http.to_string(), self.admin.to_string());
                    self.process = Some(start(&self.policy(), &http, &admin, &self.arguments).0);
                }
                other => {
                    println!("{other}");
                    continue;
                }
            }
            node.write("done\n").unwrap();
        }
        let status = node.wait(SCRIPT_TIMEOUT).unwrap();
        assert!(status.success(), "{script} failed: {status}");
    }

    fn node(&self, script: &str) -> ChildProcess {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/script").join(script);
        let mut node = Command::new("node");
        node.arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        node.env("PAGE_URL", format!("http://{}", self.admin)).env("CHECK_URL", format!("http://{}", self.http));
        node.env("PAGE_POLICY", self.policy()).env("PAGE_TOKEN", TOKEN);
        if let Some(modules) = std::env::var_os("CHROMIUM_MODULES") {
            node.env("NODE_PATH", modules);
        }
        ChildProcess::start(&mut node).unwrap()
    }
}

fn start(policy: &Path, http: &str, admin: &str, more: &[String]) -> (ChildProcess, SocketAddr, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.arg("serve").arg(policy).args(["--http", http, "--admin", admin, "--grpc", "off", "--resp", "off"]);
    command.args(more).env_remove("NOTIFY_SOCKET").stdin(Stdio::null()).stderr(Stdio::piped());
    let mut process = ChildProcess::start(&mut command).unwrap();
    let http = process.address_behind("tollgate: http listening on http://").unwrap();
    let admin = process.address_behind("tollgate: admin listening on http://").unwrap();
    process.drain_output();
    (process, http, admin)
}
