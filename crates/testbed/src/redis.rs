use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs, io};

use crate::certificates::Certificates;
use crate::child_process::ChildProcess;
use crate::directory::TemporaryDirectory;
use crate::port::ReservedPort;
use crate::reply::{Reply, ask};

const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// Which program answers. By default it is Redis, or Valkey where the environment
/// variable `TOLLGATE_TEST_SERVER` is `valkey`: so the same tests run on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `redis-server`.
    Redis,
    /// `valkey-server`: where the environment variable `TOLLGATE_VALKEY` says, or on the path.
    Valkey,
}

impl Default for Binary {
    fn default() -> Binary {
        match env::var_os("TOLLGATE_TEST_SERVER") {
            Some(name) if name == "valkey" => Binary::Valkey,
            _ => Binary::Redis,
        }
    }
}

impl Binary {
    /// Where the program is, if it is on this machine.
    #[must_use]
    pub fn program(self) -> Option<PathBuf> {
        match self {
            Binary::Redis => on_the_path("redis-server"),
            Binary::Valkey => match env::var_os("TOLLGATE_VALKEY") {
                Some(path) => Some(PathBuf::from(path)),
                None => on_the_path("valkey-server"),
            },
        }
    }
}

fn on_the_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|directory| directory.join(program)).find(|candidate| candidate.is_file())
}

/// How a server is to be started.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedisSetup<'a> {
    /// Which program.
    pub binary: Binary,
    /// More arguments, such as `--maxmemory 10mb`.
    pub arguments: &'a [&'a str],
    /// The password of its default user.
    pub password: Option<&'a str>,
    /// Listens for TLS too, with these certificates. It does not ask for a client's.
    pub certificates: Option<&'a Certificates>,
    /// Runs as one of the sentinels.
    pub sentinel: bool,
}

/// One server without persistence, ended when dropped.
#[derive(Debug)]
pub struct RedisServer {
    process: ChildProcess,
    program: PathBuf,
    arguments: Vec<String>,
    password: Option<String>,
    port: ReservedPort,
    tls_port: Option<ReservedPort>,
    directory: TemporaryDirectory,
}

impl RedisServer {
    /// Starts the default program on a free port, with more arguments such as `--maxmemory 10mb`.
    pub fn start(arguments: &[&str]) -> io::Result<RedisServer> {
        RedisServer::start_with(RedisSetup { arguments, ..RedisSetup::default() })
    }

    /// Starts a server on a free port, and waits until it answers.
    pub fn start_with(setup: RedisSetup<'_>) -> io::Result<RedisServer> {
        let program = setup.binary.program().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("{:?} is not on this machine (Debian: apt-get install redis-server)", setup.binary),
            )
        })?;
        let port = ReservedPort::new()?;
        let directory = TemporaryDirectory::new("redis")?;
        let mut arguments = Vec::new();
        if setup.sentinel {
            // A sentinel writes to its configuration, so it must have one.
            let configuration = directory.path().join("sentinel.conf");
            fs::write(&configuration, "")?;
            arguments.extend([configuration.display().to_string(), "--sentinel".to_owned()]);
        } else {
            arguments.extend(["--save", "", "--appendonly", "no"].map(str::to_owned));
        }
        let mut option = |name: &str, value: &str| arguments.extend([name.to_owned(), value.to_owned()]);
        option("--port", &port.number().to_string());
        option("--bind", "127.0.0.1");
        option("--dir", &directory.path().display().to_string());
        if let Some(password) = setup.password {
            option("--requirepass", password);
            option("--masterauth", password);
        }
        let mut tls_port = None;
        if let Some(certificates) = setup.certificates {
            let reserved = ReservedPort::new()?;
            option("--tls-port", &reserved.number().to_string());
            option("--tls-cert-file", &certificates.certificate_file().display().to_string());
            option("--tls-key-file", &certificates.key_file().display().to_string());
            option("--tls-ca-cert-file", &certificates.authority_file().display().to_string());
            option("--tls-auth-clients", "no");
            tls_port = Some(reserved);
        }
        arguments.extend(setup.arguments.iter().map(|&argument| argument.to_owned()));
        let process = spawn(&program, &arguments, directory.path())?;
        let password = setup.password.map(str::to_owned);
        let mut server = RedisServer { process, program, arguments, password, port, tls_port, directory };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.number()))
    }

    /// Where it listens for TLS, if it does.
    #[must_use]
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_port.as_ref().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port.number())))
    }

    /// What it has written to its log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Asks it something, as its default user.
    pub fn command(&self, command: &[&str]) -> io::Result<Reply> {
        ask(self.address(), self.password.as_deref(), command)
    }

    /// The password that [`command`](RedisServer::command) gives from now on.
    pub fn use_password(&mut self, password: Option<&str>) {
        self.password = password.map(str::to_owned);
    }

    /// Ends it without a warning, as a loss of power does.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }

    /// Stops it where it is: it keeps its connections and says nothing.
    pub fn pause(&self) -> io::Result<()> {
        self.process.signal("STOP")
    }

    /// Lets it go on after [`pause`](RedisServer::pause).
    pub fn resume(&self) -> io::Result<()> {
        self.process.signal("CONT")
    }

    /// Starts it again on the same port, after [`kill`](RedisServer::kill).
    pub fn restart(&mut self) -> io::Result<()> {
        let _ = self.kill();
        self.process = spawn(&self.program, &self.arguments, self.directory.path())?;
        self.wait_until_it_answers()
    }

    fn wait_until_it_answers(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.ended()? {
                return Err(io::Error::other(format!("the server ended with {status}: {}", self.log())));
            }
            // Also an error answers: whoever asks for a password is there.
            match self.command(&["PING"]) {
                Ok(_) => return Ok(()),
                Err(error) if begun.elapsed() > STARTS_WITHIN => return Err(error),
                Err(_) => sleep(Duration::from_millis(5)),
            }
        }
    }
}

fn spawn(program: &Path, arguments: &[String], directory: &Path) -> io::Result<ChildProcess> {
    let log = fs::OpenOptions::new().create(true).append(true).open(directory.join("log"))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    ChildProcess::start(&mut command)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))
}
