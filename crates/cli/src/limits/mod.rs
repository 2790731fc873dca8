mod markdown;

use std::path::PathBuf;

use clap::Args;
use tollgate::policy::published::Published;
use tollgate_server::LimitsBody;

use crate::arguments::DocumentFormat;
use crate::exit::{Exit, Failure};
use crate::{output, policy_file};

/// Print the limits as an API's documentation should publish them
///
/// Rules that are shadows or say `publish: false` are left out, and so is
/// everything that is no client's business: lists, overrides, proxies, stores.
#[derive(Debug, Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct LimitsArguments {
    /// The policy file; `-` is stdin
    file: PathBuf,

    /// How to write it
    #[arg(long, value_name = "FORMAT", default_value = "markdown")]
    format: DocumentFormat,
}

const JSON_HELP: &str = "\
The members of the JSON, which `GET /v1/limits` of the service answers too:
  rules[]    name; denies (true of a rule that refuses with 403: it has no
             grants); counts and applies_to in words; methods, hosts, paths
             (empty for all); grants[]; cost (words, or null); beyond (sentences)
  grants[]   tier (null for everybody); default; unlimited; limits[], which all
             hold at once
  limits[]   limit; burst and window_ms (null where there is none); algorithm;
             summary and explanation in words
  fields[]   name and meaning of the response fields that clients see
  advice     how a client should behave, a sentence each";

pub(crate) fn limits(arguments: &LimitsArguments) -> Result<Exit, Failure> {
    let loaded = policy_file::read_valid(&arguments.file)?;
    let published = Published::of(&loaded.policy);
    match arguments.format {
        DocumentFormat::Markdown => output::print(&markdown::document(&published))?,
        DocumentFormat::Json => output::print_json(&LimitsBody::from(&published))?,
    }
    Ok(Exit::Done)
}
