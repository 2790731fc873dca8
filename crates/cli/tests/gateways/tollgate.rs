//! `tollgate serve` with the policy of a recipe.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::process::Process;
use crate::recipe::policy;

/// What a gateway must send where tollgate has an access token. The recipes' READMEs say how.
pub(crate) const TOKEN: &str = "a-token-of-a-gateway";

pub(crate) struct Tollgate {
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    _process: Process,
}

impl Tollgate {
    /// Serves the policy beside the recipe for a program.
    pub(crate) fn serve(program: &str) -> Tollgate {
        Tollgate::start(program, Command::new(env!("CARGO_BIN_EXE_tollgate")))
    }

    /// The same for callers that send [`TOKEN`].
    pub(crate) fn serve_with_token(program: &str) -> Tollgate {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.env("TOLLGATE_ACCESS_TOKEN", TOKEN);
        Tollgate::start(program, command)
    }

    fn start(program: &str, mut command: Command) -> Tollgate {
        command.args(["serve", "-", "--http", ":0", "--grpc", ":0", "--resp", "off", "--admin", "off"]);
        let mut process = Process(command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        process.0.stdin.take().unwrap().write_all(policy(program).as_bytes()).unwrap();
        let mut lines = BufReader::new(process.0.stderr.take().unwrap()).lines();
        let mut listening = |name: &str| {
            let line = lines.next().unwrap().unwrap();
            let address = line.strip_prefix(&format!("tollgate: {name} listening on http://"));
            address.unwrap_or_else(|| panic!("{line}")).parse().unwrap()
        };
        Tollgate { http: listening("http"), grpc: listening("grpc"), _process: process }
    }
}
