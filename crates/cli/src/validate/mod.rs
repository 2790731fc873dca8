mod json;

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::FalseyValueParser;
use tollgate::policy::promise::{ANY_SPAN, Promise, promises};
use tollgate::policy::{CompiledPolicy, CounterChange, LoadError, Loaded, MissingSecrets, counter_changes};

use crate::arguments::OutputFormat;
use crate::colours::Colours;
use crate::exit::{Exit, Failure};
use crate::output::{log_info, print_diagnostics};
use crate::region::{RegionArguments, set_region};
use crate::{output, policy_file};

/// Check a policy, and print what each of its rules guarantees
///
/// The figures are upper bounds for one key in any span of that length, without
/// refunds, as long as the store has space for every key in use. A span includes
/// its first instant and not its last. Errors and warnings are printed on stderr
/// with their position in the file. Secrets are not needed: a variable that is
/// not set, or a key file that does not exist, is a note.
#[derive(Debug, Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct ValidateArguments {
    /// Policy file; `-` reads stdin
    file: PathBuf,

    /// Format of the output
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        env = "TOLLGATE_VALIDATE_FORMAT",
        hide_env_values = true
    )]
    format: OutputFormat,

    /// Treat warnings as errors: exit with 1 if there are any
    ///
    /// Notes do not count, nor do warnings that the policy names in `accept`.
    #[arg(long, env = "TOLLGATE_VALIDATE_STRICT", hide_env_values = true, value_parser = FalseyValueParser::new())]
    strict: bool,

    /// List the counters that start from zero if FILE replaces this policy
    #[arg(long, value_name = "OLD", env = "TOLLGATE_VALIDATE_AGAINST", hide_env_values = true)]
    against: Option<PathBuf>,

    #[command(flatten)]
    region: RegionArguments,
}

const JSON_HELP: &str = "\
Exit codes: 0 the policy is valid; 1 it is invalid, or has warnings with
--strict, or OLD is invalid; 3 one of the files cannot be read.

Members of the JSON, which is also printed for an invalid policy:
  file, valid, omitted (the number of errors that are not listed)
  errors[], warnings[]   code, file, line, column, width, message, hint
                         (null if there is none), source_line
  notes[], accepted[]    the same members: information; warnings and notes whose
                         codes the policy names in `accept`
  rules[]                rule; when[] (conditions as text, all of which must
                         hold; empty: all requests); key (names of identities);
                         budget (if the rule shares one with other rules); unit
                         (requests or cost); deny (if true there are no grants);
                         shadow; grants[]; warned {first, within_ms};
                         blocked {after, within_ms, for_ms}; on_failure (open,
                         closed or local); consistency (exact, leased or
                         regional); lease_ms; epoch_ms; the last six null if
                         there is none; in_each_region (if true each region
                         enforces the limits by itself)
  grants[]               whose[] {kind: everybody, tier or key; name; patterns};
                         unlimited; limits[], all of which apply
  limits[]               limit; algorithm; period_ms; most_in_period and
                         most_in_second {charged, warned}; queue {places,
                         longest_wait_ms, unheld_in_period and unheld_in_second
                         (over RESP and Envoy, where no response is delayed)};
                         at_once {permits, warned (beyond them), lease_ms};
                         longest_refusal_ms (at refusal_cost, the largest cost
                         that can pass); never_above (a larger cost never
                         passes); while_store_fails (what each instance grants
                         during the fallback: the same members); leased {most
                         (that other instances can hold, and that a failover
                         can add), expires_ms}, null if the limit is not
                         leased; regional {global_failover, regions[]}, null if
                         the limit is not regional
  regions[]              region; burst; share_thousandths (of the rate, without
                         loans), with_loans_thousandths and reserve_thousandths
                         (always left, also for a key that is new to the
                         region); server_failover (what a failover of the
                         region's server can add) or restart (the same for one
                         in memory), the other null; while_store_fails. Without
                         a region, every region is listed
  counter_changes[]      with --against only: texts, each about a counter that
                         starts from zero or is no longer used";

pub(crate) fn validate(arguments: &ValidateArguments) -> Result<Exit, Failure> {
    let read = policy_file::read(&arguments.file, MissingSecrets::Skip);
    let loaded = match (read, arguments.format) {
        (Ok(loaded), _) => loaded,
        (Err(LoadError::Invalid(report)), OutputFormat::Json) => {
            output::print_json(&json::invalid(policy_file::name_of(&arguments.file), &report))?;
            return Ok(Exit::No);
        }
        (Err(error), _) => return Err(policy_file::load_failure(&error)),
    };
    let loaded = set_region(loaded, arguments.region.name.as_deref())?;
    let compiled = policy_file::compile(&arguments.file, &loaded)?;
    let changes = match &arguments.against {
        Some(before) => Some(counter_changes(&read_and_compile(before)?, &compiled)),
        None => None,
    };
    match arguments.format {
        OutputFormat::Text => {
            print_text(arguments, &loaded)?;
            if let (Some(before), Some(changes)) = (&arguments.against, &changes) {
                print_changes(before, changes)?;
            }
        }
        OutputFormat::Json => {
            let valid = json::valid(policy_file::name_of(&arguments.file), &loaded, changes.as_deref());
            output::print_json(&valid)?;
        }
    }
    if arguments.strict && !loaded.warnings.is_empty() {
        let sentence = format!("{}, and --strict treats warnings as errors", count(loaded.warnings.len(), "warning"));
        return Err(Failure::no(sentence)
            .with_hint("repair the policy, or name the codes of intended warnings in its `accept`"));
    }
    Ok(Exit::Done)
}

fn print_text(arguments: &ValidateArguments, loaded: &Loaded) -> Result<(), Failure> {
    let blocks: Vec<String> = promises(&loaded.policy).iter().map(block).collect();
    if !blocks.is_empty() {
        let text = blocks.join("\n\n");
        let spans = if text.contains("in any ") { format!("\n\n{ANY_SPAN}") } else { String::new() };
        output::print(&format!("{text}{spans}\n"))?;
    }
    print_diagnostics(&loaded.warnings);
    print_diagnostics(&loaded.notes);
    let (rules, warnings) = (count(blocks.len(), "rule"), count(loaded.warnings.len(), "warning"));
    let accepted = match loaded.accepted.len() {
        0 => String::new(),
        accepted => format!(", {accepted} accepted"),
    };
    log_info(format_args!("{} is valid: {rules}, {warnings}{accepted}", policy_file::name_of(&arguments.file)));
    if let Some(warning) = loaded.warnings.first() {
        log_info(format_args!(
            "`tollgate message CODE` explains a warning, for example `tollgate message {}`",
            warning.code
        ));
    }
    Ok(())
}

/// Reads and compiles the policy that is replaced.
fn read_and_compile(file: &Path) -> Result<CompiledPolicy, Failure> {
    let loaded = policy_file::read_valid(file, MissingSecrets::Skip)?;
    policy_file::compile(file, &loaded)
}

fn print_changes(before: &Path, changes: &[CounterChange]) -> Result<(), Failure> {
    let before = policy_file::name_of(before);
    let except = if changes.is_empty() { "" } else { " except these" };
    let lines: String = changes.iter().map(|change| format!("  {change}\n")).collect();
    output::print(&format!("\nreplacing {before}, all counters continue{except}\n{lines}"))
}

fn block(promise: &Promise) -> String {
    let text = promise.to_string();
    match text.split_once('\n') {
        Some((heading, rest)) => format!("{}\n{rest}", Colours::of_stdout().heading(heading)),
        None => text,
    }
}

/// Returns `1 rule`, `2 rules`.
fn count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
