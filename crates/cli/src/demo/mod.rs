//! A service with generated traffic, to look at.

mod traffic;

use clap::{Args, Parser};

use crate::exit::{Exit, Failure};
use crate::serve::{ListenAddress, ServeArguments, serve_demo};

pub(crate) use traffic::send_traffic;

/// Serve with the starter policy and generated traffic
///
/// Forty ordinary clients, a scraper and a credential stuffer send some thirty
/// requests a second to the HTTP listener, on this machine only. Nothing is
/// stored. The admin listener shows what happens; Ctrl-C stops.
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Listen here for HTTP; a port alone means 127.0.0.1
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8080",
        env = "TOLLGATE_DEMO_HTTP",
        hide_env_values = true
    )]
    http: ListenAddress,

    /// Listen here for the page, the admin API and metrics
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9099",
        env = "TOLLGATE_DEMO_ADMIN",
        hide_env_values = true
    )]
    admin: ListenAddress,
}

/// The flags of `serve`, for its defaults.
#[derive(Parser)]
struct ServeLine {
    #[command(flatten)]
    serve: ServeArguments,
}

pub(crate) fn demo(arguments: &DemoArguments) -> Result<Exit, Failure> {
    let [http, admin] = [("--http", arguments.http), ("--admin", arguments.admin)].map(|(flag, address)| {
        let address = address.address().filter(|address| address.ip().is_loopback());
        address.map(|address| address.to_string()).ok_or_else(|| {
            Failure::wrong_usage(format!("the demo needs a loopback address for {flag}"))
                .with_hint("to serve other machines, use `tollgate serve`")
        })
    });
    let (http, admin) = (http?, admin?);
    let line = ["serve", "--http", &http, "--admin", &admin, "--grpc", "off", "--resp", "off"];
    let line = ServeLine::try_parse_from(line).map_err(|error| Failure::wrong_usage(error.to_string()))?;
    serve_demo(&line.serve)
}
