use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use tollgate::clock::Clock;
use tollgate::policy::promise::Promise;
use tollgate_server::observe::{EventFormat, EventLog, IdentityFormat, Observer, ObserverSettings};

use crate::exit::Failure;
use crate::output::{self, RepeatedError, log_info};

/// The log, on stderr.
#[derive(Debug, Args)]
#[command(next_help_heading = "Log")]
pub(super) struct LogArguments {
    /// Write the log on stderr in this format
    #[arg(long, value_name = "FORMAT", default_value = "text", env = "TOLLGATE_LOG_FORMAT", hide_env_values = true)]
    log_format: LogFormatArgument,

    /// Show client identities in this form in the log, in events and in lists
    #[arg(
        long,
        value_name = "FORM",
        default_value = "hashed",
        env = "TOLLGATE_LOG_IDENTITIES",
        hide_env_values = true
    )]
    log_identities: IdentityForm,

    /// Hash client identities with the key in this file, at least 16 bytes
    ///
    /// The file is reloaded when it changes; each hash names its key. Without
    /// the file the key is random and changes at every start.
    #[arg(long, value_name = "FILE", env = "TOLLGATE_LOG_KEY_FILE", hide_env_values = true)]
    log_key_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormatArgument {
    /// Readable lines
    Text,
    /// One JSON object per line
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IdentityForm {
    /// Keyed hashes
    Hashed,
    /// Networks (IPv4 /24, IPv6 /48), and the first characters of other values
    Truncated,
    /// Unchanged
    Plain,
}

impl LogArguments {
    /// Starts the log, for notices only or with the events of clients and rules. From then on all messages of the program
    /// go through it.
    pub(super) fn start(&self, clock: &Arc<dyn Clock>, notices_only: bool) -> Result<Arc<Observer>, Failure> {
        let format = match self.log_format {
            LogFormatArgument::Text => EventFormat::Text,
            LogFormatArgument::Json => EventFormat::Json,
        };
        let identities = match self.log_identities {
            IdentityForm::Hashed => IdentityFormat::Hashed,
            IdentityForm::Truncated => IdentityFormat::Truncated,
            IdentityForm::Plain => IdentityFormat::Plain,
        };
        let log = EventLog::start(format, io::stderr())
            .map_err(|error| Failure::failed(format!("cannot start the thread of the log: {error}")))?;
        let log = if notices_only { log.notices_only() } else { log };
        let settings = ObserverSettings { identities, key_file: self.log_key_file.clone(), log: Some(log) };
        let observer = Observer::new(settings, Arc::clone(clock)).map_err(|error| match &self.log_key_file {
            Some(file) => Failure::failed(format!("cannot use {} as the log key: {error}", file.display())),
            None => Failure::failed(format!("cannot create a log key: {error}")),
        })?;
        let observer = Arc::new(observer);
        output::use_log(&observer, format);
        Ok(observer)
    }
}

/// The observer, its periodic work, and its key, which is reloaded when its file changes.
pub(super) struct Observing {
    observer: Arc<Observer>,
    last_error: RepeatedError,
}

impl Observing {
    pub(super) fn new(observer: Arc<Observer>) -> Observing {
        Observing { observer, last_error: RepeatedError::default() }
    }

    /// Logs what a rule guarantees.
    pub(super) fn log_rule(&self, promise: &Promise) {
        self.observer.introduce(promise);
    }

    /// Runs the periodic work, and reloads the key if its file has changed.
    pub(super) fn check(&mut self) {
        self.observer.run_periodic();
        match self.observer.reread_key() {
            Ok(None) => {}
            Ok(Some(id)) => {
                self.last_error.clear();
                log_info(format_args!("log key reloaded: clients are hashed with key {id} from now on"));
            }
            Err(error) => {
                self.last_error.log(format!("log key not reloaded, the previous one stays in use: {error}"));
            }
        }
    }
}
