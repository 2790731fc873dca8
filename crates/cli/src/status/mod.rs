mod text;

use clap::Args;
use serde_json::Value;

use crate::arguments::OutputFormat;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::remote::{AdminServiceArguments, HttpCall, ServiceConnection, ServiceStatus};

pub(crate) use text::page;

/// Show the state of a running service
///
/// Exit code: 1 if requests are decided without the store, else 0.
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    service: AdminServiceArguments,

    /// Format of the output: with json, the answer of the service
    #[arg(long, value_name = "FORMAT", default_value = "text", env = "TOLLGATE_STATUS_FORMAT", hide_env_values = true)]
    format: OutputFormat,
}

pub(crate) fn status(arguments: &StatusArguments) -> Result<Exit, Failure> {
    let connection = arguments.service.connection()?;
    let (status, answer) = read_status(&connection)?;
    match arguments.format {
        OutputFormat::Text => output::print(&page(&status, &connection.url))?,
        OutputFormat::Json => output::print_json(&answer)?,
    }
    Ok(if status.store.state == "failing" { Exit::No } else { Exit::Done })
}

/// Reads the state of a service, in both forms.
pub(crate) fn read_status(connection: &ServiceConnection) -> Result<(ServiceStatus, Value), Failure> {
    let answer = connection.json(HttpCall::get("/api/status"))?;
    match serde_json::from_value(answer.clone()) {
        Ok(status) => Ok((status, answer)),
        Err(error) => Err(Failure::failed(format!("{}/api/status returned another form: {error}", connection.url))
            .with_hint("use the `tollgate` program of the same version as the service")),
    }
}
