//! Converts configurations of other programs to policies.

mod configuration;
mod identity_names;
mod rule_names;
mod rules;
mod write;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use tollgate::policy::parse;

use crate::exit::{Exit, Failure};
use crate::output::log_info;
use crate::{output, policy_file};
use configuration::EnvoyConfiguration;

/// Convert the configuration of another program to a policy
#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    #[command(subcommand)]
    source: ImportSource,
}

#[derive(Debug, Subcommand)]
enum ImportSource {
    Envoy(EnvoyArguments),
}

/// Configuration of envoyproxy/ratelimit
///
/// Each limit becomes a rule that applies to the same descriptors and decides
/// the same. A setting without an equivalent is an error with its position.
#[derive(Debug, Args)]
struct EnvoyArguments {
    /// Files, one for each domain; `-` reads stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn import(arguments: &ImportArguments) -> Result<Exit, Failure> {
    let ImportSource::Envoy(EnvoyArguments { files }) = &arguments.source;
    let mut configurations: Vec<EnvoyConfiguration> = Vec::new();
    for file in files {
        let configuration = read(file, &configurations)?;
        configurations.push(configuration);
    }
    let policy = write::policy(&rules::rules(&configurations));
    // A written policy must be valid.
    let checked = parse(&policy, "the imported policy", None)
        .map_err(|report| Failure::report(Exit::Failed, format!("cannot convert this to a policy:\n{report}")))?;
    output::print(&policy)?;
    let ignored: usize = configurations.iter().map(|configuration| configuration.ignored).sum();
    if ignored > 0 {
        let times = if ignored == 1 { "once".to_owned() } else { format!("{ignored} times") };
        log_info(format_args!(
            "omitted settings without effect on decisions (metrics, metadata, names of descriptors), {times}"
        ));
    }
    if checked.policy.rules.is_empty() {
        log_info("no descriptor has a rate_limit: the policy has no rules");
    }
    Ok(Exit::Done)
}

fn read(file: &Path, known: &[EnvoyConfiguration]) -> Result<EnvoyConfiguration, Failure> {
    let text = policy_file::text(file).map_err(|error| Failure::report(Exit::Failed, error.to_string()))?;
    let domains: Vec<&str> = known.iter().map(|configuration| configuration.domain.as_str()).collect();
    EnvoyConfiguration::read(&text, &policy_file::name_of(file), &domains)
        .map_err(|report| Failure::report(Exit::No, report.to_string()))
}
