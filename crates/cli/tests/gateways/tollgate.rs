//! A `tollgate serve` process with the policy of a recipe.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use tollgate_testbed::ChildProcess;

use crate::recipe::policy;

/// The access token that a gateway must send. The READMEs of the recipes describe how.
pub(crate) const TOKEN: &str = "a-token-of-a-gateway";

pub(crate) struct Tollgate {
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    _process: ChildProcess,
}

impl Tollgate {
    /// Serves the policy of the recipe for a gateway.
    pub(crate) fn serve(program: &str) -> Tollgate {
        Tollgate::start(program, Command::new(env!("CARGO_BIN_EXE_tollgate")))
    }

    /// The same, and requires [`TOKEN`].
    pub(crate) fn serve_with_token(program: &str) -> Tollgate {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.env("TOLLGATE_ACCESS_TOKEN", TOKEN);
        Tollgate::start(program, command)
    }

    fn start(program: &str, mut command: Command) -> Tollgate {
        command.args(["serve", "-", "--http", ":0", "--grpc", ":0", "--resp", "off", "--admin", "off"]);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut process = ChildProcess::start(&mut command).unwrap();
        process.write(&policy(program)).unwrap();
        process.close_stdin();
        let mut listening =
            |name: &str| process.address_behind(&format!("tollgate: {name} listening on http://")).unwrap();
        Tollgate { http: listening("http"), grpc: listening("grpc"), _process: process }
    }
}
