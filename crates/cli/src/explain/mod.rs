mod descriptor;
mod text;

use std::path::PathBuf;

use clap::Args;
use tollgate::policy::CheckedPolicy;
use tollgate::policy::MissingSecrets;
use tollgate::policy::model::{BUILT_IN_IDENTITIES, TIER};
use tollgate_server::ExplanationBody;

use crate::arguments::OutputFormat;
use crate::exit::{Exit, Failure};
use crate::output::log_info;
use crate::request::RequestArguments;
use crate::{output, policy_file};
use descriptor::DescriptorArguments;

/// Show which rules apply to a request, and why the others do not
///
/// Prints for each rule that applies: the key, the limit, the algorithm and the
/// cost. Nothing is charged.
#[derive(Debug, Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct ExplainArguments {
    /// Policy file; `-` reads stdin
    file: PathBuf,

    #[command(flatten)]
    request: RequestArguments,

    #[command(flatten)]
    descriptor: DescriptorArguments,

    /// Format of the output
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        env = "TOLLGATE_EXPLAIN_FORMAT",
        hide_env_values = true
    )]
    format: OutputFormat,
}

/// The code of a note about a secret that is not available.
const MISSING_SECRET: &str = "missing-secret";

const JSON_HELP: &str = "\
Members of the JSON:
  access      rules (they decide), allowed (no rule applies), denied, or
              unauthorized (an unusable token is refused)
  decided_by  the entry of the list that decided, or `rule NAME` for a rule that
              denies, or null
  client_ip, path, tier   as tollgate determined them; null if unknown
  readings[]  the paths that servers may read it as, `path` first; a rule applies
              if any of them matches, and replaces others if all of them match
  identities  by name, those that are present
  rules[]     rule; applies; reason (null if it applies); shadow; key (\"\" if
              the rule has one counter for all requests), more_keys[] (if another
              reading has another path_segment), read_as (the reading that
              matches; null if there is only one), route, cost; granted_by (rule,
              tier or override) and grant_name; denies (key, cost and granted_by
              are null then); unlimited; limits[]; from key on all null if the
              rule does not apply
  limits[]    name (as in response fields); limit; algorithm";

pub(crate) fn explain(arguments: &ExplainArguments) -> Result<Exit, Failure> {
    let loaded = policy_file::read_valid(&arguments.file, MissingSecrets::Skip)?;
    let policy = policy_file::compile(&arguments.file, &loaded)?;
    // Without its key a token is unusable, which the explanation would not show.
    output::print_diagnostics(loaded.notes.iter().chain(&loaded.accepted).filter(|note| note.code == MISSING_SECRET));
    let identities = arguments.request.identities();
    for (name, _) in identities.iter().filter(|(name, _)| !is_declared(&loaded.policy, name)) {
        log_info(format_args!("the policy has no identity `{name}`: its value has no effect"));
    }
    let entries = arguments.descriptor.entries();
    let explanation = match arguments.descriptor.descriptor(&entries) {
        Some(descriptor) => policy.explain(&DescriptorArguments::request(&descriptor, arguments.request.cost)),
        None => policy.explain(&arguments.request.request(&identities)),
    };
    match arguments.format {
        OutputFormat::Text => output::print(&text::page(&policy, &explanation))?,
        OutputFormat::Json => output::print_json(&ExplanationBody::new(&policy, &explanation))?,
    }
    Ok(Exit::Done)
}

fn is_declared(policy: &CheckedPolicy, name: &str) -> bool {
    BUILT_IN_IDENTITIES.contains(&name)
        || (name == TIER && policy.tier.is_some())
        || policy.identities.iter().any(|identity| identity.name == name)
}
