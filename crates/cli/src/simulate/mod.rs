mod json;
mod text;

use std::path::{Path, PathBuf};

use clap::Args;
use tollgate::policy::model::Policy;
use tollgate::policy::{CheckedPolicy, MissingSecrets};
use tollgate_workbench::log::LogFormat;
use tollgate_workbench::plot::simulation_drawing;
use tollgate_workbench::simulate::Simulation;

use crate::arguments::OutputFormat;
use crate::exit::{Exit, Failure};
use crate::output::{self, print_diagnostics};
use crate::policy_file;
use crate::workbench::logs::{self, LOG_FORMAT_HELP, LOG_HELP, LOG_LONG_HELP};
use crate::workbench::plot_file::{PLOT_HELP, PlotFile};

/// Show what a policy would have done to the traffic of access logs
///
/// The limiter decides each request at its logged time, in virtual time and in
/// memory. The address in a log is taken as that of the client, so
/// `trusted_proxies` do not apply. A log has no durations, so `concurrency`
/// refuses nothing, and no costs of responses: estimates are not settled.
/// Headers that are not logged are absent. Clients are counted by address, or by
/// user where there is no address.
#[derive(Debug, Args)]
#[command(after_long_help = JSON_HELP)]
pub(crate) struct SimulateArguments {
    /// Policy file; `-` reads stdin
    file: PathBuf,

    #[arg(
        long,
        value_name = "LOG",
        required = true,
        num_args = 1..,
        help = LOG_HELP,
        long_help = LOG_LONG_HELP,
        env = "TOLLGATE_SIMULATE_LOG",
        hide_env_values = true
    )]
    log: Vec<PathBuf>,

    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "auto",
        help = LOG_FORMAT_HELP,
        env = "TOLLGATE_SIMULATE_LOG_FORMAT",
        hide_env_values = true
    )]
    log_format: LogFormat,

    /// Compare with this policy: which requests and clients change from allowed to refused, and back
    #[arg(long, value_name = "OTHER", env = "TOLLGATE_SIMULATE_AGAINST", hide_env_values = true)]
    against: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FILE",
        value_parser = PlotFile::parse,
        help = PLOT_HELP,
        env = "TOLLGATE_SIMULATE_PLOT",
        hide_env_values = true
    )]
    plot: Option<PlotFile>,

    /// Format of the output
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        env = "TOLLGATE_SIMULATE_FORMAT",
        hide_env_values = true
    )]
    format: OutputFormat,
}

const JSON_HELP: &str = "\
Members of the JSON:
  lines, unreadable, requests   lines of the logs, those that could not be read,
                                and the simulated requests
  clients, clients_refused      all clients, and those that were refused
  allowed, refused              all requests that pass and that do not; together
                                `requests`
  warned, delayed               requests that pass with a warning, or late
  blocked, denied               refused requests: by escalation, by deny rules
  longest_delay_ms, evictions   the longest wait in a queue; live keys that the
                                store dropped because it was full
  from, to                      the times of the first and the last request
  rules[]                       rule; shadow; allowed, refused, warned, delayed
                                and blocked (by this rule alone);
                                clients_refused
  endpoints[]                   endpoint; allowed; refused; warned; delayed;
                                blocked: the 20 with the most refused requests
  worst_clients[]               client; requests; refused; warned; delayed;
                                blocked; first_refused; peak_per_second,
                                peak_per_minute, peak_per_hour (of the clock);
                                rules[] {rule, refused}
  peaks[]                       clients by their most requests in a minute:
                                from, to; never_refused and refused (clients)
  over_time                     start; interval_ms; allowed[]; refused[];
                                warned[]; delayed[]; blocked[]
  against                       with --against only: file; allowed, refused and
                                rules of the other policy; newly_refused,
                                newly_allowed (requests); clients_newly_refused,
                                clients_newly_allowed; clients[]";

pub(crate) fn simulate(arguments: &SimulateArguments) -> Result<Exit, Failure> {
    let policies: Vec<&Path> = [&arguments.file].into_iter().chain(&arguments.against).map(PathBuf::as_path).collect();
    logs::check_stdin(&policies, &arguments.log)?;
    let policy = read_policy(&arguments.file)?;
    let against = arguments.against.as_deref().map(read_policy).transpose()?;
    let mut simulation = Simulation::new(&policy).map_err(|error| not_simulated(&arguments.file, &error))?;
    if let (Some(against), Some(file)) = (&against, &arguments.against) {
        simulation = simulation.against(against).map_err(|error| not_simulated(file, &error))?;
    }
    let needs_fields = needs_fields(&policy) || against.as_ref().is_some_and(|policy| needs_fields(policy));
    let fields = if needs_fields { None } else { Some(Vec::new()) };
    let summary = logs::read(&arguments.log, arguments.log_format, fields, &mut |batch| simulation.requests(batch))?;
    let report = simulation.finish();
    match arguments.format {
        OutputFormat::Text => {
            let with_sketch = arguments.plot.is_none();
            output::print(&text::page(&report, &summary, arguments.against.as_deref(), with_sketch))?;
        }
        OutputFormat::Json => {
            output::print_json(&json::answer(&report, &summary, arguments.against.as_deref()))?;
        }
    }
    if let Some(plot) = &arguments.plot {
        plot.write(&simulation_drawing(&report))?;
    }
    Ok(Exit::Done)
}

fn read_policy(file: &Path) -> Result<CheckedPolicy, Failure> {
    let loaded = policy_file::read_valid(file, MissingSecrets::Skip)?;
    print_diagnostics(&loaded.warnings);
    Ok(loaded.policy)
}

fn not_simulated(file: &Path, error: &tollgate::LimiterError) -> Failure {
    Failure::report(Exit::No, format!("{}: error: {error}", policy_file::name_of(file)))
}

/// Whether a policy may read fields of a log. Without them it is read faster.
fn needs_fields(policy: &Policy) -> bool {
    let uses_headers = policy.rules.iter().any(|rule| !rule.when.headers.is_empty() || rule.cost != Default::default());
    !policy.identities.is_empty() || policy.tier.is_some() || uses_headers
}
