use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::listen_address::ListenAddress;

/// Decides, for every request, whether it may pass
#[derive(Debug, Parser)]
#[command(name = "tollgate", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(ServeArguments),
}

/// Run the service
///
/// Prints a line on stderr for each listener once it accepts. SIGTERM and
/// Ctrl-C stop accepting, answer what is under way, and end.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// The policy file (not read yet: leave it out to serve the built-in rule)
    pub(crate) file: Option<PathBuf>,

    /// Where to answer HTTP; a port alone is a loopback port, `off` is not at all
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(crate) http: ListenAddress,

    /// Where to answer gRPC (not served yet)
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    pub(crate) grpc: ListenAddress,

    /// Where to answer RESP (not served yet)
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6380")]
    pub(crate) resp: ListenAddress,

    /// Where operators look; a loopback address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    pub(crate) admin: ListenAddress,
}
