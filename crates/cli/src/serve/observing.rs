use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use tollgate::Clock;
use tollgate::policy::promise::Promise;
use tollgate_server::observe::{Identities, Log, LogFormat, Observer, ObserverSettings};

use crate::exit::Failure;
use crate::output::{self, Complaint, say};

/// The log, on stderr.
#[derive(Debug, Args)]
#[command(next_help_heading = "Log")]
pub(super) struct LogArguments {
    /// How the lines on stderr look
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: Format,

    /// How clients are told of in the log, in events and in lists
    #[arg(long, value_name = "HOW", default_value = "hashed")]
    log_identities: Told,

    /// A file with the key for hashes of clients, at least 16 bytes
    ///
    /// It is read again when it changes; each hash tells under which key it
    /// was made. Without it the key is random, and another after every start.
    #[arg(long, value_name = "FILE")]
    log_key_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// Each line is a JSON object
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Told {
    /// As keyed hashes
    Hashed,
    /// As networks (/24, IPv6 /48), and the first characters of anything else
    Truncated,
    /// As they are
    Plain,
}

impl LogArguments {
    /// Begins to write the log. From here on everything that is said is in it.
    pub(super) fn start(&self, clock: &Arc<dyn Clock>) -> Result<Arc<Observer>, Failure> {
        let format = match self.log_format {
            Format::Text => LogFormat::Text,
            Format::Json => LogFormat::Json,
        };
        let identities = match self.log_identities {
            Told::Hashed => Identities::Hashed,
            Told::Truncated => Identities::Truncated,
            Told::Plain => Identities::Plain,
        };
        let log = Log::start(format, io::stderr())
            .map_err(|error| Failure::failed(format!("cannot start the log's thread: {error}")))?;
        let settings = ObserverSettings { identities, key_file: self.log_key_file.clone(), log: Some(log) };
        let observer = Observer::new(settings, Arc::clone(clock)).map_err(|error| match &self.log_key_file {
            Some(file) => Failure::failed(format!("cannot use {} as the log's key: {error}", file.display())),
            None => Failure::failed(format!("cannot make a key for the log: {error}")),
        })?;
        let observer = Arc::new(observer);
        output::through(&observer, format);
        Ok(observer)
    }
}

/// An observer who looks around now and then, and whose key is read again when it changes.
pub(super) struct Observing {
    observer: Arc<Observer>,
    complaint: Complaint,
}

impl Observing {
    pub(super) fn new(observer: Arc<Observer>) -> Observing {
        Observing { observer, complaint: Complaint::default() }
    }

    /// Tells what a rule promises.
    pub(super) fn introduce(&self, promise: &Promise) {
        self.observer.introduce(promise);
    }

    pub(super) fn look(&mut self) {
        self.observer.look_around();
        match self.observer.reread_key() {
            Ok(None) => {}
            Ok(Some(id)) => {
                self.complaint.clear();
                say(format_args!("the log's key was read again: clients are hashed under key {id} from now on"));
            }
            Err(error) => {
                self.complaint.say(format!("the log's key was not read again, and the old one still holds: {error}"));
            }
        }
    }
}
