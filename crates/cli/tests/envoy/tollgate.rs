//! `tollgate serve` with the policy of the recipe.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::gateway::deployed;
use crate::process::Process;

pub(crate) struct Tollgate {
    pub(crate) grpc: SocketAddr,
    _process: Process,
}

impl Tollgate {
    pub(crate) fn serve() -> Tollgate {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.arg("serve").arg(deployed("policy.yaml"));
        command.args(["--http", "off", "--resp", "off", "--admin", "off", "--grpc", ":0"]);
        let mut process = Process(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(process.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("tollgate: grpc listening on http://");
        let grpc = address.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        Tollgate { grpc, _process: process }
    }
}
