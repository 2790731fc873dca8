//! A process of an application.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tollgate_testbed::ChildProcess;

use crate::client::Client;
use crate::service::Service;

/// How to run an application: a script of `script/`, which prints the port on which it serves.
pub(crate) struct Framework {
    /// Its directory in `examples` and, in upper case, the variable with the directory of its packages.
    pub(crate) name: &'static str,
    pub(crate) program: &'static str,
    pub(crate) script: &'static str,
    /// The variable in which the program looks for packages.
    pub(crate) path: &'static str,
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
    _process: ChildProcess,
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
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(framework.program);
        command.arg(tests.join("tests/applications/script").join(framework.script));
        command.arg(tests.join("../../examples").join(framework.name));
        command.env("TOLLGATE_URL", format!("http://{}", service.http));
        command.env("TOLLGATE_FAIL_OPEN", if matches!(outage, Outage::Allows) { "true" } else { "false" });
        command.envs(variables.iter().copied());
        // Compiled files stay out of the repository.
        command.env(framework.path, packages(framework.name)).env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = ChildProcess::start(&mut command).unwrap();
        let port = process.line().unwrap().and_then(|line| line.parse().ok());
        let port: u16 = port.unwrap_or_else(|| panic!("the application does not print its port"));
        process.drain_output();
        Application { address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), _process: process }
    }

    /// A client whose address ends in `host`.
    pub(crate) fn client(&self, host: u8) -> Client {
        Client { host, gateway: self.address }
    }
}

fn packages(name: &str) -> PathBuf {
    let variable = name.to_uppercase();
    std::env::var_os(&variable).unwrap_or_else(|| panic!("{variable} is the directory of the packages")).into()
}
