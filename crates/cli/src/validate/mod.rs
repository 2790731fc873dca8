mod json;

use std::path::{Path, PathBuf};

use clap::Args;
use tollgate::policy::promise::{ANY_SPAN, Promise, promises};
use tollgate::policy::{CompiledPolicy, CounterChange, LoadError, Loaded, counter_changes};

use crate::arguments::Format;
use crate::colours::Colours;
use crate::exit::{Exit, Failure};
use crate::output::{say, warn};
use crate::{output, policy_file};

/// Check a policy, and print what each of its rules promises
///
/// The figures are the most that can pass for one key in any span of that
/// length, with nothing given back, as long as the store has room for every
/// key in use. A span includes its first instant and not its last. What is wrong is told on stderr with its place in the file.
#[derive(Debug, Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct ValidateArguments {
    /// The policy file; `-` is stdin
    file: PathBuf,

    /// How to write the answer
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// Take warnings for errors: exit with 1 if there are any
    #[arg(long)]
    strict: bool,

    /// The policy in force before: say which counts do not go on when this one takes its place
    #[arg(long, value_name = "OLD")]
    against: Option<PathBuf>,
}

const JSON_HELP: &str = "\
Exit codes: 0 it is valid; 1 it is not, or has warnings with --strict, or OLD is
not valid; 3 one of them cannot be read.

The members of the JSON, which is written for an invalid policy too:
  file, valid, omitted (how many more errors there are than are told)
  errors[], warnings[]   code, file, line, column, width, message, hint
                         (null where there is none), source_line
  rules[]                rule; when[] (conditions in words, which all hold;
                         none: all requests); key (names of identities); unit (requests or
                         cost); deny (it has no grants then); shadow; grants[]; warned {first, within_ms};
                         blocked {after, within_ms, for_ms}; on_failure (open,
                         closed or local); these three null where there is none
  grants[]               whose[] {kind: everybody, tier or key; name; patterns};
                         unlimited; limits[], which all hold at once
  limits[]               limit; algorithm; period_ms; most_in_period and
                         most_in_second {charged, warned}; queue {places,
                         longest_wait_ms, unheld_in_period and unheld_in_second
                         (over RESP and Envoy, where no answer is held back)};
                         at_once {permits, warned (beyond them), lease_ms};
                         longest_refusal_ms (at refusal_cost, the largest that
                         can pass); never_above (what costs more never passes);
                         while_store_fails (what each instance grants on its
                         own: the same members)
  counter_changes[]      with --against only: strings, each of which says
                         whose counts start from zero or are not used any more";

pub(crate) fn validate(arguments: &ValidateArguments) -> Result<Exit, Failure> {
    let read = policy_file::read(&arguments.file);
    let loaded = match (read, arguments.format) {
        (Ok(loaded), _) => loaded,
        (Err(LoadError::Invalid(report)), Format::Json) => {
            output::print_json(&json::invalid(policy_file::name_of(&arguments.file), &report))?;
            return Ok(Exit::No);
        }
        (Err(error), _) => return Err(policy_file::unread(&error)),
    };
    let plan = policy_file::compile(&arguments.file, &loaded)?;
    let changes = match &arguments.against {
        Some(before) => Some(counter_changes(&compiled(before)?, &plan)),
        None => None,
    };
    match arguments.format {
        Format::Text => {
            tell(arguments, &loaded)?;
            if let (Some(before), Some(changes)) = (&arguments.against, &changes) {
                tell_changes(before, changes)?;
            }
        }
        Format::Json => {
            let valid = json::valid(policy_file::name_of(&arguments.file), &loaded, changes.as_deref());
            output::print_json(&valid)?;
        }
    }
    if arguments.strict && !loaded.warnings.is_empty() {
        let what = format!("{}, and --strict takes them for errors", count(loaded.warnings.len(), "warning"));
        return Err(Failure::no(what));
    }
    Ok(Exit::Done)
}

fn tell(arguments: &ValidateArguments, loaded: &Loaded) -> Result<(), Failure> {
    let blocks: Vec<String> = promises(&loaded.policy).iter().map(block).collect();
    if !blocks.is_empty() {
        let text = blocks.join("\n\n");
        let spans = if text.contains("in any ") { format!("\n\n{ANY_SPAN}") } else { String::new() };
        output::print(&format!("{text}{spans}\n"))?;
    }
    warn(&loaded.warnings);
    let (rules, warnings) = (count(blocks.len(), "rule"), count(loaded.warnings.len(), "warning"));
    say(format_args!("{} is valid: {rules}, {warnings}", policy_file::name_of(&arguments.file)));
    if let Some(warning) = loaded.warnings.first() {
        say(format_args!("`tollgate message {}` says more about the first of them", warning.code));
    }
    Ok(())
}

/// The policy that holds before.
fn compiled(file: &Path) -> Result<CompiledPolicy, Failure> {
    let loaded = policy_file::read(file).map_err(|error| policy_file::unread(&error))?;
    policy_file::compile(file, &loaded)
}

fn tell_changes(before: &Path, changes: &[CounterChange]) -> Result<(), Failure> {
    let before = policy_file::name_of(before);
    let but_these = if changes.is_empty() { "" } else { " but these" };
    let lines: String = changes.iter().map(|change| format!("  {change}\n")).collect();
    output::print(&format!("\nreplacing {before}, all counts go on{but_these}\n{lines}"))
}

fn block(promise: &Promise) -> String {
    let text = promise.to_string();
    match text.split_once('\n') {
        Some((heading, rest)) => format!("{}\n{rest}", Colours::of_stdout().heading(heading)),
        None => text,
    }
}

/// `1 rule`, `2 rules`
fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
