//! Other programs' configurations as policies.

mod configuration;
mod identity_names;
mod rule_names;
mod rules;
mod write;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use tollgate::policy::parse;

use crate::exit::{Exit, Failure};
use crate::output::say;
use crate::{output, policy_file};
use configuration::Configuration;

/// Write another program's configuration as a policy
#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, Subcommand)]
enum From {
    Envoy(EnvoyArguments),
}

/// The configuration of envoyproxy/ratelimit
///
/// Each limit becomes a rule that is met by the same descriptors and decides
/// alike. What has no counterpart is an error with its place.
#[derive(Debug, Args)]
struct EnvoyArguments {
    /// The files, one for each domain; `-` is stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn import(arguments: &ImportArguments) -> Result<Exit, Failure> {
    let From::Envoy(EnvoyArguments { files }) = &arguments.from;
    let mut configurations: Vec<Configuration> = Vec::new();
    for file in files {
        let configuration = read(file, &configurations)?;
        configurations.push(configuration);
    }
    let policy = write::policy(&rules::rules(&configurations));
    // What we write we must be able to read.
    let checked = parse(&policy, "the imported policy", None)
        .map_err(|report| Failure::report(Exit::Failed, format!("cannot write this as a policy:\n{report}")))?;
    output::print(&policy)?;
    let ignored: usize = configurations.iter().map(|configuration| configuration.ignored).sum();
    if ignored > 0 {
        let times = if ignored == 1 { "once".to_owned() } else { format!("{ignored} times") };
        say(format_args!("left out what decides nothing (metrics, metadata, names of descriptors), {times}"));
    }
    if checked.policy.rules.is_empty() {
        say("no descriptor has a rate_limit, so that there are no rules");
    }
    Ok(Exit::Done)
}

fn read(file: &Path, known: &[Configuration]) -> Result<Configuration, Failure> {
    let text = policy_file::text(file).map_err(|error| Failure::report(Exit::Failed, error.to_string()))?;
    let domains: Vec<&str> = known.iter().map(|configuration| configuration.domain.as_str()).collect();
    Configuration::read(&text, &policy_file::name_of(file), &domains)
        .map_err(|report| Failure::report(Exit::No, report.to_string()))
}
