mod json;
mod request;
mod text;

use std::path::PathBuf;

use clap::Args;
use tollgate::CheckedPolicy;
use tollgate::policy::model::{BUILT_IN_IDENTITIES, TIER};

use crate::arguments::Format;
use crate::exit::{Exit, Failure};
use crate::output::say;
use crate::{output, policy_file};
use request::RequestArguments;

/// Tell which rules a request meets, and which it does not and why
///
/// For each rule that applies: by which key it is counted, under which limit
/// and algorithm, at which cost. Nothing is counted by asking.
#[derive(Debug, Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct ExplainArguments {
    /// The policy file; `-` is stdin
    file: PathBuf,

    #[command(flatten)]
    request: RequestArguments,

    /// How to write the answer
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

const JSON_HELP: &str = "\
The members of the JSON:
  access      rules (they decide), allowed (meets no rule) or denied
  decided_by  the entry of the list that decided, or `rule NAME` for a rule that
              denies, or null
  client_ip, path, tier   as they were understood; null where not known
  readings[]  what servers may take the path for, `path` first; a rule applies
              if it does in any of them, and replaces others if in all
  identities  by name, those that are present
  rules[]     rule; applies; reason (null if it applies); shadow; key (\"\" where
              everybody is counted together), more_keys[] (where another
              reading has another path_segment), read_as (the reading in
              which it applies; null if there is one only), route, cost; granted_by (rule,
              tier or override) and grant_name; denies (then key, cost and
              granted_by are null); unlimited; limits[]; all of these null
              where it does not apply
  limits[]    name (as in response fields); limit; algorithm";

pub(crate) fn explain(arguments: &ExplainArguments) -> Result<Exit, Failure> {
    let loaded = policy_file::read_valid(&arguments.file)?;
    let plan = policy_file::compile(&arguments.file, &loaded)?;
    let identities = arguments.request.identities();
    for (name, _) in identities.iter().filter(|(name, _)| !is_known(&loaded.policy, name)) {
        say(format_args!("the policy has no identity `{name}`, so what it is set to changes nothing"));
    }
    let entries = arguments.request.entries();
    let explanation = match arguments.request.descriptor(&entries) {
        Some(descriptor) => plan.explain(&arguments.request.of_descriptor(&descriptor)),
        None => plan.explain(&arguments.request.request(&identities)),
    };
    match arguments.format {
        Format::Text => output::print(&text::page(&plan, &explanation))?,
        Format::Json => output::print_json(&json::body(&plan, &explanation))?,
    }
    Ok(Exit::Done)
}

fn is_known(policy: &CheckedPolicy, name: &str) -> bool {
    BUILT_IN_IDENTITIES.contains(&name)
        || (name == TIER && policy.tier.is_some())
        || policy.identities.iter().any(|identity| identity.name == name)
}
