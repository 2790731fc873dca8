use clap::Args;

use crate::exit::{Exit, Failure};
use crate::output;
use crate::remote::{HttpCall, PublicArguments};

/// Ask a running service whether it is ready
///
/// For health checks of containers, whose image has no other program.
/// Exit code: 0 if the service accepts requests, 1 if it shuts down or does
/// not agree with other instances, 3 if it cannot be reached.
#[derive(Debug, Args)]
pub(crate) struct ReadyArguments {
    #[command(flatten)]
    service: PublicArguments,
}

pub(crate) fn ready(arguments: &ReadyArguments) -> Result<Exit, Failure> {
    let service = arguments.service.connection()?;
    let response = service.call(HttpCall::get("/readyz"))?;
    output::print(&format!("{}\n", response.body.trim_end()))?;
    match response.status {
        200 => Ok(Exit::Done),
        503 => Ok(Exit::No),
        status => Err(Failure::failed(format!("/readyz returned status {status}")).with_hint(service.listener_hint)),
    }
}
