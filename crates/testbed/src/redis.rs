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

const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The server program. The default is Redis, or Valkey if the environment variable `TOLLGATE_TEST_SERVER` is `valkey`, so
/// that the same tests run on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `redis-server`.
    Redis,
    /// `valkey-server`: at the path in the environment variable `TOLLGATE_VALKEY`, or in `PATH`.
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
    /// Returns the path of the program, if it is installed.
    #[must_use]
    pub fn program(self) -> Option<PathBuf> {
        match self {
            Binary::Redis => find_in_path("redis-server"),
            Binary::Valkey => match env::var_os("TOLLGATE_VALKEY") {
                Some(path) => Some(PathBuf::from(path)),
                None => find_in_path("valkey-server"),
            },
        }
    }
}

fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|directory| directory.join(program)).find(|candidate| candidate.is_file())
}

/// The setup of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedisSetup<'a> {
    /// The server program.
    pub binary: Binary,
    /// Additional arguments, such as `--maxmemory 10mb`.
    pub arguments: &'a [&'a str],
    /// The password of the default user.
    pub password: Option<&'a str>,
    /// The certificates for an additional TLS port. Client certificates are not requested.
    pub certificates: Option<&'a Certificates>,
    /// Whether it runs as a sentinel.
    pub sentinel: bool,
}

/// One server without persistence, killed when dropped.
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
    /// Starts the default program on a free port, with additional arguments such as `--maxmemory 10mb`.
    pub fn start(arguments: &[&str]) -> io::Result<RedisServer> {
        RedisServer::start_with(RedisSetup { arguments, ..RedisSetup::default() })
    }

    /// Starts a server on a free port, and waits until it replies.
    pub fn start_with(setup: RedisSetup<'_>) -> io::Result<RedisServer> {
        let program = setup.binary.program().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("{:?} is not installed (Debian: apt-get install redis-server)", setup.binary),
            )
        })?;
        let port = ReservedPort::new()?;
        let directory = TemporaryDirectory::new("redis")?;
        let mut arguments = Vec::new();
        if setup.sentinel {
            // A sentinel rewrites its configuration, so it needs a file.
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
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Returns the address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.number()))
    }

    /// Returns the address of the TLS port, if there is one.
    #[must_use]
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_port.as_ref().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port.number())))
    }

    /// Returns the content of the server's log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Sends a command as the default user.
    pub fn command(&self, command: &[&str]) -> io::Result<Reply> {
        ask(self.address(), self.password.as_deref(), command)
    }

    /// Sets the password that [`command`](RedisServer::command) uses from now on.
    pub fn use_password(&mut self, password: Option<&str>) {
        self.password = password.map(str::to_owned);
    }

    /// Kills the server with SIGKILL, so that it cannot clean up.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }

    /// Pauses the server with SIGSTOP: it keeps its connections and sends no replies.
    pub fn pause(&self) -> io::Result<()> {
        self.process.signal("STOP")
    }

    /// Continues the server after [`pause`](RedisServer::pause).
    pub fn resume(&self) -> io::Result<()> {
        self.process.signal("CONT")
    }

    /// Restarts the server on the same port, after [`kill`](RedisServer::kill).
    pub fn restart(&mut self) -> io::Result<()> {
        let _ = self.kill();
        self.process = spawn(&self.program, &self.arguments, self.directory.path())?;
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.ended()? {
                return Err(io::Error::other(format!("the server ended with {status}: {}", self.log())));
            }
            // An error reply counts too: a server that requires a password is ready.
            match self.command(&["PING"]) {
                Ok(_) => return Ok(()),
                Err(error) if begun.elapsed() > START_TIMEOUT => return Err(error),
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
