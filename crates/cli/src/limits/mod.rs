mod markdown;

use std::path::PathBuf;

use clap::Args;
use tollgate::policy::MissingSecrets;
use tollgate::policy::published::Published;
use tollgate_server::LimitsBody;

use crate::arguments::DocumentFormat;
use crate::exit::{Exit, Failure};
use crate::{output, policy_file};

/// Print the limits as an API's documentation should publish them
///
/// Shadow rules and rules with `publish: false` are omitted, and so is
/// everything that does not concern clients: lists, overrides, proxies, stores.
#[derive(Debug, Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct LimitsArguments {
    /// Policy file; `-` reads stdin
    file: PathBuf,

    /// Format of the output
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "markdown",
        env = "TOLLGATE_LIMITS_FORMAT",
        hide_env_values = true
    )]
    format: DocumentFormat,
}

const JSON_HELP: &str = "\
Members of the JSON, which `GET /v1/limits` of the service also returns:
  rules[]    name; denies (true for a rule that refuses with 403: it has no
             grants); counts and applies_to (text); methods, hosts, paths
             (empty for all); grants[]; cost (text, or null); beyond (sentences)
  grants[]   tier (null for all clients); default; unlimited; limits[], all of
             which apply
  limits[]   limit; burst and window_ms (null if there is none); algorithm;
             summary and explanation (text)
  fields[]   name and meaning of the response fields that clients get
  advice     how a client should behave, a sentence each";

pub(crate) fn limits(arguments: &LimitsArguments) -> Result<Exit, Failure> {
    let loaded = policy_file::read_valid(&arguments.file, MissingSecrets::Skip)?;
    let published = Published::of(&loaded.policy);
    match arguments.format {
        DocumentFormat::Markdown => output::print(&markdown::document(&published))?,
        DocumentFormat::Json => output::print_json(&LimitsBody::from(&published))?,
    }
    Ok(Exit::Done)
}
