mod json;
mod served;
mod shares;
mod text;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::builder::FalseyValueParser;
use clap::{ArgGroup, Args};
use tollgate_workbench::calibrate::{CalibrationKey, CalibrationOptions, Calibrator, policy_text};
use tollgate_workbench::log::LogFormat;
use tollgate_workbench::plot::calibration_drawing;

use crate::arguments::OutputFormat;
use crate::exit::{Exit, Failure};
use crate::output::{self, log_info};
use crate::remote::ServiceUrl;
use crate::workbench::logs::{self, LOG_FORMAT_HELP, LOG_HELP, LOG_LONG_HELP};
use crate::workbench::plot_file::{PLOT_HELP, PlotFile, cannot_write};
use crate::workbench::table::duration;
use served::ServedTarget;

/// Propose limits that the traffic of access logs supports
///
/// Endpoints are split into reads, writes and authentication, by method, path
/// and status. Clients that stand out are set apart: a figure of theirs is at
/// least 3 times that of the next lower client. The limit of a class is what the
/// stated share of the other clients needs, plus a margin: the smallest rate at
/// which their bursts refill within a minute (10 for authentication), and
/// exactly the smallest bucket that would have let them through.
///
/// With --admin, the figures are those that a running service has counted under
/// its rules since it started: for each rule the part of the limit that remained
/// after its decisions. Declare limits as shadow rules to try them.
#[derive(Debug, Args)]
#[command(after_long_help = JSON_HELP)]
#[command(group = ArgGroup::new("source").required(true).args(["log", "admin"]))]
pub(crate) struct CalibrateArguments {
    #[arg(
        long,
        value_name = "LOG",
        num_args = 1..,
        help = LOG_HELP,
        long_help = LOG_LONG_HELP,
        env = "TOLLGATE_CALIBRATE_LOG",
        hide_env_values = true
    )]
    log: Vec<PathBuf>,

    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "auto",
        help = LOG_FORMAT_HELP,
        env = "TOLLGATE_CALIBRATE_LOG_FORMAT",
        hide_env_values = true
    )]
    log_format: LogFormat,

    /// Use the figures of a running service: the address of its admin listener. The token is in TOLLGATE_ADMIN_TOKEN
    #[arg(
        long,
        value_name = "URL",
        value_parser = ServiceUrl::parse,
        conflicts_with_all = ["write", "plot"],
        env = "TOLLGATE_CALIBRATE_ADMIN",
        hide_env_values = true
    )]
    admin: Option<ServiceUrl>,

    /// Key to count by: client_ip, user, host, path, or the name of a field of the log. May be repeated
    #[arg(
        long,
        value_name = "KEY",
        default_value = "client_ip",
        value_delimiter = ',',
        value_parser = key,
        env = "TOLLGATE_CALIBRATE_BY",
        hide_env_values = true
    )]
    by: Vec<CalibrationKey>,

    /// Share of the well-behaved clients that are never refused
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "99.9%",
        value_parser = shares::share_ppm,
        env = "TOLLGATE_CALIBRATE_SHARE",
        hide_env_values = true
    )]
    share: u32,

    /// How much above the observed need the limits are
    #[arg(
        long,
        value_name = "MARGIN",
        default_value = "20%",
        value_parser = shares::margin_percent,
        env = "TOLLGATE_CALIBRATE_MARGIN",
        hide_env_values = true
    )]
    margin: u32,

    /// Write a policy with the limits to this file, each with its evidence in comments; `-` for stdout
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CALIBRATE_WRITE", hide_env_values = true)]
    write: Option<PathBuf>,

    /// Replace the policy file if it exists
    #[arg(long, env = "TOLLGATE_CALIBRATE_FORCE", hide_env_values = true, value_parser = FalseyValueParser::new())]
    force: bool,

    #[arg(
        long,
        value_name = "FILE",
        value_parser = PlotFile::parse,
        help = PLOT_HELP,
        env = "TOLLGATE_CALIBRATE_PLOT",
        hide_env_values = true
    )]
    plot: Option<PlotFile>,

    /// Format of the output
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        env = "TOLLGATE_CALIBRATE_FORMAT",
        hide_env_values = true
    )]
    format: OutputFormat,
}

const JSON_HELP: &str = "\
Members of the JSON:
  lines, unreadable, requests   lines of the logs, those that could not be read,
                                and the measured requests
  clients, from, to             the clients of the first key; the times of the
                                first and the last request
  share_percent, margin_percent what was stated
  auth_endpoints[]              the endpoints of the class `auth`
  proposals[]                   key; class (reads, writes or auth); limit;
                                evidence; clients_touched, requests_touched
                                (what the limit would have refused, with
                                outliers); outliers_touched and
                                outlier_requests_touched (of these)
  evidence                      clients, requests (well-behaved); outliers,
                                outlier_requests; peak_per_second,
                                peak_per_minute, peak_per_hour (of the clock),
                                sustained_per_hour and burst (quantiles over
                                the clients: p50, p90, p99, p99_9, max);
                                needed_count, period_ms, needed_burst
  outliers[]                    key; client; kind; class; requests; denied (401
                                or 403); peak_per_minute; refused

With --admin: admin, proposals[] {rule, key, shadow, limit, proposed (null if the
figures do not support a limit), reason, near_limit[] and offenders[] (of
`/api/top`), evidence {decisions, refused, headroom[] {at_most_percent,
decisions}}}.";

pub(crate) fn calibrate(arguments: &CalibrateArguments) -> Result<Exit, Failure> {
    if let Some(admin) = &arguments.admin {
        let target = ServedTarget { share_ppm: arguments.share, margin_percent: arguments.margin };
        return served::calibrate(admin, &target, arguments.format);
    }
    logs::check_stdin(&[], &arguments.log)?;
    check_target(arguments)?;
    let options =
        CalibrationOptions { keys: arguments.by.clone(), share_ppm: arguments.share, margin_percent: arguments.margin };
    let names = |key: &CalibrationKey| match key {
        CalibrationKey::Field(name) => Some(name.clone()),
        _ => None,
    };
    let fields = arguments.by.iter().filter_map(names).collect();
    let mut calibrator = Calibrator::new(options);
    let summary =
        logs::read(&arguments.log, arguments.log_format, Some(fields), &mut |batch| calibrator.requests(batch))?;
    let calibration = calibrator.finish().map_err(|error| {
        Failure::failed(format!("the temporary file of the requests failed: {error}"))
            .with_hint("it takes some six bytes a request; TMPDIR sets its directory")
    })?;
    note_short_span(calibration.last_ns - calibration.first_ns);
    for (key, clients) in &calibration.clients {
        if *clients == 0 {
            log_info(format_args!("warning: no request has a value of `{key}`, so no limit by it is proposed"));
        }
    }
    let policy = policy_text(&calibration);
    let prints_policy = arguments.write.as_deref() == Some(Path::new("-"));
    match arguments.format {
        OutputFormat::Text if prints_policy => output::print(&policy)?,
        OutputFormat::Text => output::print(&text::page(&calibration, &summary))?,
        OutputFormat::Json => output::print_json(&json::answer(&calibration, &summary))?,
    }
    if let Some(file) = arguments.write.as_deref().filter(|_| !prints_policy) {
        write(file, &policy, arguments.force)?;
        log_info(format_args!("wrote {0}; `tollgate simulate {0} --log ..` shows what it does", file.display()));
    }
    if let Some(plot) = &arguments.plot {
        plot.write(&calibration_drawing(&calibration))?;
    }
    Ok(Exit::Done)
}

/// Limits from less than a day do not know the other hours.
fn note_short_span(span_ns: u64) {
    const DAY_NS: u64 = 86_400_000_000_000;
    if span_ns < DAY_NS {
        let span = duration(span_ns);
        log_info(format_args!("note: the log covers {span}: peaks of other hours and days are not in the limits"));
    }
}

/// Refuses, before the logs are read, a target that exists or that has no place on stdout.
fn check_target(arguments: &CalibrateArguments) -> Result<(), Failure> {
    let Some(file) = &arguments.write else { return Ok(()) };
    if file == Path::new("-") {
        return match arguments.format {
            OutputFormat::Text => Ok(()),
            OutputFormat::Json => Err(Failure::wrong_usage("the policy and the JSON cannot both be on stdout")
                .with_hint("write the policy to a file: --write policy.yaml")),
        };
    }
    if file.exists() && !arguments.force { Err(exists(file)) } else { Ok(()) }
}

fn write(file: &Path, policy: &str, force: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    options.open(file).and_then(|mut file| file.write_all(policy.as_bytes())).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(file),
        _ => cannot_write(file, &error),
    })
}

fn exists(file: &Path) -> Failure {
    Failure::failed(format!("{} exists already", file.display()))
        .with_hint("choose another name, or replace the file with --force")
}

/// The expected names of keys.
#[derive(Debug, thiserror::Error)]
#[error("expected client_ip, user, host, path, or the name of a field of the log in lower case")]
struct ExpectedKey;

fn key(name: &str) -> Result<CalibrationKey, ExpectedKey> {
    CalibrationKey::parse(name).ok_or(ExpectedKey)
}
