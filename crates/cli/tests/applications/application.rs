//! A process of an application.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tollgate_testbed::{ChildProcess, TemporaryDirectory};

use crate::client::Client;
use crate::service::Service;

/// How to run an application: a program of `script/`, which prints the port on which it serves.
pub(crate) struct Framework {
    pub(crate) command: fn(&TemporaryDirectory) -> Command,
}

/// A machine under load may need longer than the default.
const TIMEOUT_SECONDS: &str = "10";

/// What the application does while tollgate is unreachable.
#[derive(Clone, Copy)]
pub(crate) enum Outage {
    Allows,
    Refuses,
}

pub(crate) struct Application {
    address: SocketAddr,
    // In this order: the directory is removed after the process has ended.
    _process: ChildProcess,
    _files: TemporaryDirectory,
}

impl Application {
    /// Starts an application that asks the service.
    pub(crate) fn start(framework: &Framework, service: &Service, outage: Outage) -> Application {
        Application::start_with(framework, service, outage, &[("TOLLGATE_TIMEOUT_SECONDS", TIMEOUT_SECONDS)])
    }

    /// The same, with these variables instead of a long timeout.
    pub(crate) fn start_with(
        framework: &Framework,
        service: &Service,
        outage: Outage,
        variables: &[(&str, &str)],
    ) -> Application {
        let files = TemporaryDirectory::new("application").unwrap();
        let mut command = (framework.command)(&files);
        command.env("TOLLGATE_URL", format!("http://{}", service.http));
        command.env("TOLLGATE_FAIL_OPEN", if matches!(outage, Outage::Allows) { "true" } else { "false" });
        command.envs(variables.iter().copied());
        // A compiled file would be in the repository.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = ChildProcess::start(&mut command).unwrap();
        let port = process.line().unwrap().and_then(|line| line.parse().ok());
        let port: u16 = port.unwrap_or_else(|| panic!("the application does not print its port"));
        process.drain_output();
        Application { address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), _process: process, _files: files }
    }

    /// A client whose address ends in `host`.
    pub(crate) fn client(&self, host: u8) -> Client {
        Client { host, gateway: self.address }
    }
}

/// Runs a script of `script/` with an application of `examples`. `path` is where the program looks for packages.
pub(crate) fn interpreted(program: &str, script: &str, example: &str, path: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(scripts().join(script)).arg(examples().join(example)).env(path, packages(example));
    command
}

pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/applications/script")
}

pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The directory of the packages for an example.
pub(crate) fn packages(example: &str) -> PathBuf {
    let variable = example.to_uppercase();
    std::env::var_os(&variable).unwrap_or_else(|| panic!("{variable} is the directory of the packages")).into()
}
