mod text;

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use tollgate::Rate;
use tollgate_server::ComparisonBody;
use tollgate_workbench::compare::Comparer;
use tollgate_workbench::log::LogFormat;
use tollgate_workbench::plot::comparison_drawing;
use tollgate_workbench::rate_text;
use tollgate_workbench::traffic::{MAX_GENERATED_LIMIT, TrafficPattern};

use crate::arguments::OutputFormat;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::workbench::logs::{self, LOG_FORMAT_HELP, LOG_HELP, LOG_LONG_HELP};
use crate::workbench::plot_file::{PLOT_HELP, PlotFile};

/// Show how one limit works under each algorithm, on the same traffic
///
/// The limit applies to each client: each address of a log, or user where there
/// is no address. Traffic comes from logs, or is generated for the limit. The
/// queue holds as many requests as the limit.
#[derive(Debug, Args)]
#[command(after_long_help = JSON_HELP)]
#[command(group = ArgGroup::new("source").required(true).args(["log", "traffic"]))]
pub(crate) struct CompareArguments {
    /// Limit, such as 100/min or '60/min burst 100'; a burst applies to buckets and the queue
    #[arg(long, value_name = "LIMIT", env = "TOLLGATE_COMPARE_LIMIT", hide_env_values = true)]
    limit: Rate,

    #[arg(
        long,
        value_name = "LOG",
        num_args = 1..,
        help = LOG_HELP,
        long_help = LOG_LONG_HELP,
        env = "TOLLGATE_COMPARE_LOG",
        hide_env_values = true
    )]
    log: Vec<PathBuf>,

    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "auto",
        help = LOG_FORMAT_HELP,
        env = "TOLLGATE_COMPARE_LOG_FORMAT",
        hide_env_values = true
    )]
    log_format: LogFormat,

    /// Generate traffic for the limit
    #[arg(long, value_name = "PATTERN", env = "TOLLGATE_COMPARE_TRAFFIC", hide_env_values = true)]
    traffic: Option<TrafficArgument>,

    #[arg(
        long,
        value_name = "FILE",
        value_parser = PlotFile::parse,
        help = PLOT_HELP,
        env = "TOLLGATE_COMPARE_PLOT",
        hide_env_values = true
    )]
    plot: Option<PlotFile>,

    /// Format of the output
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        env = "TOLLGATE_COMPARE_FORMAT",
        hide_env_values = true
    )]
    format: OutputFormat,
}

/// A pattern of generated traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TrafficArgument {
    /// One client sends the limit at the end of a window, and again at the start of the next
    Boundary,
    /// One client sends twice the limit at once, in every third window
    Burst,
    /// One client sends evenly, at 1.5 times the limit
    Steady,
    /// 100 clients send at random, at mean rates from 0.2 to 1.1 of the limit
    Poisson,
}

const JSON_HELP: &str = "\
Members of the JSON:
  limit, requests, clients
  algorithms[]   algorithm; admitted; refused; max_in_window and max_in_second
                 (the most of one client that pass in any such span);
                 wrong_percent (requests that the sliding window log decides
                 otherwise); longest_wait_ms (the larger of the next two);
                 longest_delay_ms (of a request in the queue); longest_retry_ms
                 (until a refused request would pass); bytes_per_client (the
                 largest state)";

pub(crate) fn compare(arguments: &CompareArguments) -> Result<Exit, Failure> {
    logs::check_stdin(&[], &arguments.log)?;
    let mut comparer = Comparer::new(arguments.limit).map_err(|error| {
        let limit = rate_text(&arguments.limit);
        Failure::wrong_usage(format!("{limit} is not possible under every algorithm: {error}"))
    })?;
    let traffic = match arguments.traffic {
        Some(traffic) => {
            let arrivals = traffic.pattern().arrivals(&arguments.limit).ok_or_else(|| too_large(&arguments.limit))?;
            for arrival in &arrivals {
                comparer.arrival(arrival);
            }
            format!("{} traffic", traffic.name())
        }
        None => read_logs(arguments, &mut comparer)?,
    };
    let comparison = comparer.finish();
    match arguments.format {
        OutputFormat::Text => output::print(&text::page(&comparison, &traffic, arguments.plot.is_none()))?,
        OutputFormat::Json => output::print_json(&ComparisonBody::from(&comparison))?,
    }
    if let Some(plot) = &arguments.plot {
        plot.write(&comparison_drawing(&comparison))?;
    }
    Ok(Exit::Done)
}

/// Reads logs, and returns their span of time as text.
fn read_logs(arguments: &CompareArguments, comparer: &mut Comparer) -> Result<String, Failure> {
    let mut without_client = 0;
    let summary = logs::read(&arguments.log, arguments.log_format, Some(Vec::new()), &mut |batch| {
        without_client += batch.iter().filter(|record| !comparer.record(record)).count();
    })?;
    if without_client > 0 {
        output::log_info(format_args!("warning: {without_client} requests without address or user are left out"));
    }
    Ok(logs::span_text(&summary))
}

fn too_large(limit: &Rate) -> Failure {
    Failure::wrong_usage(format!("{} is too large for generated traffic", rate_text(limit)))
        .with_hint(format!("a limit of up to {MAX_GENERATED_LIMIT} in a period, or traffic from a --log"))
}

impl TrafficArgument {
    fn pattern(self) -> TrafficPattern {
        match self {
            TrafficArgument::Boundary => TrafficPattern::Boundary,
            TrafficArgument::Burst => TrafficPattern::Burst,
            TrafficArgument::Steady => TrafficPattern::Steady,
            TrafficArgument::Poisson => TrafficPattern::Poisson,
        }
    }

    fn name(self) -> &'static str {
        match self {
            TrafficArgument::Boundary => "boundary",
            TrafficArgument::Burst => "burst",
            TrafficArgument::Steady => "steady",
            TrafficArgument::Poisson => "poisson",
        }
    }
}
