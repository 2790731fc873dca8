//! A gateway, started as a person would start it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tollgate_testbed::{ChildProcess, TemporaryDirectory};

use crate::client::Client;
use crate::recipe::Recipe;

const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// Between the choice of a free port and its use somebody else may take it.
const ATTEMPTS: usize = 5;

/// The last part of the address of whoever asks whether it is there yet.
const PROBE_HOST: u8 = 250;

/// What a gateway does while it cannot ask tollgate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhileAway {
    Refuse,
    Pass,
}

/// A gateway that runs until it is dropped.
pub(crate) struct Gateway {
    address: SocketAddr,
    // In this order: the directory goes when nobody writes there any more.
    process: ChildProcess,
    _directory: TemporaryDirectory,
}

/// A program, and how its recipe is run.
pub(crate) struct Program {
    /// Its directory in `deploy`, its command, and, in capitals, its variable.
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static [&'static str],
    /// The ports that its recipe listens on; the first is for clients.
    pub(crate) listens: &'static [u16],
    /// The Python package that has it.
    pub(crate) package: &'static str,
}

/// Whom a gateway talks to.
pub(crate) struct Others {
    /// The port of tollgate as the recipe writes it, and where it is.
    pub(crate) tollgate: (u16, SocketAddr),
    pub(crate) upstream: SocketAddr,
}

impl Gateway {
    /// Runs a recipe with the choice that was made.
    pub(crate) fn start(program: &Program, others: &Others, choice: (&'static str, &'static str)) -> Gateway {
        let started = (0..ATTEMPTS).find_map(|_| Gateway::try_start(program, others, choice));
        started.unwrap_or_else(|| panic!("{} ends before it answers", program.name))
    }

    fn try_start(program: &Program, others: &Others, choice: (&'static str, &'static str)) -> Option<Gateway> {
        let mut ports: Vec<(u16, u16)> = program.listens.iter().map(|port| (*port, free_port())).collect();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports[0].1));
        ports.push((8000, others.upstream.port()));
        ports.push((others.tollgate.0, others.tollgate.1.port()));
        let directory = TemporaryDirectory::new(program.name).unwrap();
        Recipe { program: program.name, ports, choice }.write(directory.path());
        let process = program.run(directory.path());
        let mut gateway = Gateway { address, process, _directory: directory };
        gateway.answers().then_some(gateway)
    }

    /// Waits until it answers; `false` if it ends before that.
    fn answers(&mut self) -> bool {
        let begun = Instant::now();
        loop {
            // A listener may be there before its routes are.
            if self.client(PROBE_HOST).send("GET", "/", &[], "").is_ok_and(|seen| seen.status != 404) {
                return true;
            }
            if self.process.ended().unwrap().is_some() {
                return false;
            }
            assert!(begun.elapsed() < STARTS_WITHIN, "the gateway does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A client whose address ends in `host`.
    pub(crate) fn client(&self, host: u8) -> Client {
        Client { host, gateway: self.address }
    }
}

impl Program {
    fn run(&self, directory: &Path) -> ChildProcess {
        let variable = self.name.to_uppercase();
        let program = std::env::var_os(&variable).unwrap_or_else(|| self.name.into());
        let mut command = Command::new(&program);
        command
            .args(self.arguments)
            .current_dir(directory)
            // What it keeps for itself it should keep here.
            .env("HOME", directory)
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        ChildProcess::start(&mut command).unwrap_or_else(|error| {
            let (program, package) = (program.display(), self.package);
            panic!("{program} cannot be started: {error} (pip install {package} has it, and {variable} may say where)")
        })
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
