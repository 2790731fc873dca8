//! A gateway process with the configuration of its recipe.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tollgate_testbed::{ChildProcess, ReservedPort, TemporaryDirectory};

use crate::client::Client;
use crate::recipe::Recipe;

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Another process may take a free port before the gateway binds it.
const ATTEMPTS: usize = 5;

/// The last part of the address of the client that waits for the gateway to start.
const PROBE_HOST: u8 = 250;

/// What a gateway does with requests while tollgate is unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureMode {
    Refuse,
    Pass,
}

/// A gateway that runs until it is dropped.
pub(crate) struct Gateway {
    address: SocketAddr,
    // In this order: the directory is removed after the process has ended.
    process: ChildProcess,
    _directory: TemporaryDirectory,
    // Envoy and HAProxy would share the port of another instance, and each get a part of its connections.
    _ports: Vec<ReservedPort>,
}

/// A gateway program and the command line for its recipe.
pub(crate) struct Program {
    /// Its directory in `deploy`, its command and, in upper case, its environment variable.
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static [&'static str],
    /// The ports that its recipe listens on; the first is for clients.
    pub(crate) listens: &'static [u16],
    /// The Python package that has it.
    pub(crate) package: &'static str,
}

/// The servers that a gateway connects to.
pub(crate) struct Backends {
    /// The port of tollgate in the recipe, and its actual address.
    pub(crate) tollgate: (u16, SocketAddr),
    pub(crate) upstream: SocketAddr,
}

impl Gateway {
    /// Starts a gateway with a recipe in which `choice.0` is replaced by `choice.1`.
    pub(crate) fn start(program: &Program, backends: &Backends, choice: (&'static str, &'static str)) -> Gateway {
        Gateway::start_written(program, |directory, ports| {
            let mut ports = ports.to_vec();
            ports.push((8000, backends.upstream.port()));
            ports.push((backends.tollgate.0, backends.tollgate.1.port()));
            Recipe { program: program.name, ports, choice }.write(directory);
        })
    }

    /// Starts a gateway in a directory with the files of `write`, which gets each port of the program, and the actual one.
    pub(crate) fn start_written(program: &Program, write: impl Fn(&Path, &[(u16, u16)])) -> Gateway {
        let started = (0..ATTEMPTS).find_map(|_| Gateway::try_start(program, &write));
        started.unwrap_or_else(|| panic!("{} exits before it answers", program.name))
    }

    fn try_start(program: &Program, write: impl Fn(&Path, &[(u16, u16)])) -> Option<Gateway> {
        let reserved: Vec<ReservedPort> = program.listens.iter().map(|_| ReservedPort::new().unwrap()).collect();
        let actual = reserved.iter().map(ReservedPort::number);
        let ports: Vec<(u16, u16)> = program.listens.iter().copied().zip(actual).collect();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports[0].1));
        let directory = TemporaryDirectory::new(program.name).unwrap();
        write(directory.path(), &ports);
        let process = program.run(directory.path());
        let mut gateway = Gateway { address, process, _directory: directory, _ports: reserved };
        gateway.answers().then_some(gateway)
    }

    /// Waits until the gateway answers; `false` if it exits before.
    fn answers(&mut self) -> bool {
        let begun = Instant::now();
        loop {
            // A listener may accept before the routes are loaded.
            if self.client(PROBE_HOST).send("GET", "/", &[], "").is_ok_and(|response| response.status != 404) {
                return true;
            }
            if self.process.ended().unwrap().is_some() {
                return false;
            }
            assert!(begun.elapsed() < START_TIMEOUT, "the gateway does not answer");
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
            // Its own files go into the directory, too.
            .env("HOME", directory)
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        ChildProcess::start(&mut command).unwrap_or_else(|error| {
            let (program, package) = (program.display(), self.package);
            panic!("{program} cannot be started: {error} (pip install {package} provides it; {variable} overrides its path)")
        })
    }
}
