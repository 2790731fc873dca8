//! Who may ask, on each listener: arguments, and tokens as an operator gives them, in a file or in a variable.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tollgate_server::{AccessToken, CallerAccess, Listeners};

use crate::exit::Failure;
use crate::output::{Complaint, say};

/// Who may use the admin listener.
#[derive(Debug, Args)]
pub(super) struct AdminArguments {
    /// A file with the token that operators must bring, as `Authorization:
    /// Bearer`, which is read again when it changes; else the variable
    /// TOLLGATE_ADMIN_TOKEN. Without either only this machine may look
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
}

impl AdminArguments {
    pub(super) fn token(&self) -> TokenSource<'_> {
        TokenSource { name: "admin", file: self.admin_token_file.as_deref(), variable: "TOLLGATE_ADMIN_TOKEN" }
    }

    /// What is likely a mistake about who may use the admin listener.
    pub(super) fn warnings(&self, is_exposed: bool, is_encrypted: bool) -> Vec<String> {
        let exposed = (is_exposed && !is_encrypted).then(|| {
            "the admin listener is open to other machines without TLS: whoever hears a call on its way has the token"
                .to_owned()
        });
        exposed.into_iter().chain(self.token().warning()).collect()
    }
}

/// Who may ask for decisions.
#[derive(Debug, Args)]
#[command(next_help_heading = "Callers")]
pub(super) struct CallerArguments {
    /// A file with the token that callers must send on the HTTP, gRPC and RESP listeners; else the variable TOLLGATE_ACCESS_TOKEN
    ///
    /// HTTP: `Authorization: Bearer TOKEN`, or `X-Tollgate-Token: TOKEN` for
    /// forward-auth, where Authorization is the client's own. gRPC: the metadata
    /// `authorization: Bearer TOKEN`. RESP: `AUTH TOKEN`. Health checks need
    /// none. The file is read again when it changes.
    #[arg(long, value_name = "FILE")]
    access_token_file: Option<PathBuf>,

    /// Whether the HTTP listener answers GET /metrics, without rules that have `publish: false`; the admin listener always does, with all
    #[arg(long, value_name = "ON|OFF", default_value = "on")]
    http_metrics: OnOff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnOff {
    On,
    Off,
}

/// How a listener that other machines reach is protected.
#[derive(Clone, Copy)]
pub(super) struct Protection {
    pub(super) is_encrypted: bool,
    /// Whether only clients with a certificate get in.
    pub(super) asks_for_certificates: bool,
}

impl CallerArguments {
    pub(super) fn token(&self) -> TokenSource<'_> {
        TokenSource { name: "access", file: self.access_token_file.as_deref(), variable: "TOLLGATE_ACCESS_TOKEN" }
    }

    pub(super) fn access(&self, token: Option<AccessToken>) -> CallerAccess {
        CallerAccess { token, has_metrics: self.http_metrics == OnOff::On }
    }

    /// What is likely a mistake about who may ask.
    pub(super) fn warnings(&self, listeners: &Listeners, has_token: bool, protection: Protection) -> Vec<String> {
        let exposed = exposed(listeners);
        let mut warnings = Vec::new();
        if !exposed.is_empty() {
            let open = format!("open to other machines ({})", exposed.join(", "));
            match (has_token || protection.asks_for_certificates, protection.is_encrypted) {
                (false, false) => warnings.push(format!(
                    "listeners are {open} without a token and without TLS: every machine that reaches them can charge, \
                     refund and release in any client's name, and read what others ask; set --access-token-file and --tls-cert, \
                     or keep them within a network that you trust"
                )),
                (false, true) => warnings.push(format!(
                    "listeners are {open} without a token: every machine that reaches them can charge, refund and release \
                     in any client's name; set --access-token-file or --tls-client-ca"
                )),
                (true, false) => warnings.push(format!(
                    "listeners are {open} without TLS: the token can be read on its way; set --tls-cert and --tls-key"
                )),
                (true, true) => {}
            }
        }
        warnings.extend(self.token().warning());
        warnings
    }
}

/// The listeners for callers that other machines reach.
fn exposed(listeners: &Listeners) -> Vec<&'static str> {
    let all = [("http", listeners.http), ("grpc", listeners.grpc), ("resp", listeners.resp)];
    all.into_iter().filter(|(_, address)| address.is_some_and(is_exposed)).map(|(name, _)| name).collect()
}

/// Whether other machines reach an address.
pub(super) fn is_exposed(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

/// Where a token stands.
pub(super) struct TokenSource<'a> {
    /// Which token it is: `admin` or `access`.
    pub(super) name: &'static str,
    pub(super) file: Option<&'a Path>,
    /// For where files are harder to give than variables.
    pub(super) variable: &'static str,
}

impl TokenSource<'_> {
    /// The token, if there is one.
    pub(super) fn read(&self) -> Result<Option<AccessToken>, Failure> {
        let (text, place) = match self.file {
            Some(file) => {
                let (name, place) = (self.name, file.display().to_string());
                let text = fs::read_to_string(file)
                    .map_err(|error| Failure::failed(format!("cannot read the {name} token in {place}: {error}")))?;
                (text, place)
            }
            None => match std::env::var(self.variable) {
                Ok(text) if text.is_empty() => return Err(self.empty_variable()),
                Ok(text) => (text, self.variable.to_owned()),
                Err(std::env::VarError::NotPresent) => return Ok(None),
                Err(error) => return Err(Failure::failed(format!("{}: {error}", self.variable))),
            },
        };
        let token = AccessToken::new(&text);
        token.map(Some).map_err(|error| {
            Failure::failed(format!("{place}: {error}")).with_hint("`openssl rand -hex 32` makes a good one")
        })
    }

    /// A token that got lost on its way into the variable must not open the listener.
    fn empty_variable(&self) -> Failure {
        let variable = self.variable;
        let what = format!("{variable} is set and empty, which is not taken to mean that no token is wanted");
        Failure::failed(what).with_hint(format!("`unset {variable}` to have none; `openssl rand -hex 32` makes one"))
    }

    /// A warning if other users of this machine may read the token.
    pub(super) fn warning(&self) -> Option<String> {
        let file = self.file.filter(|file| is_open_to_all(file))?.display();
        Some(format!("every user of this machine may read the {} token in {file}: `chmod 600 {file}`", self.name))
    }

    /// What reads `token` again when its file changes; `None` where there is no file.
    pub(super) fn watch(&self, token: Option<&AccessToken>) -> Option<WatchedToken> {
        let (token, file) = (token?.clone(), self.file?.to_owned());
        Some(WatchedToken { name: self.name, token, file, complaint: Complaint::default() })
    }
}

fn is_open_to_all(file: &Path) -> bool {
    const OTHERS_READ: u32 = 0o004;
    fs::metadata(file).is_ok_and(|known| known.permissions().mode() & OTHERS_READ != 0)
}

/// A token that is read again when its file changes.
pub(super) struct WatchedToken {
    name: &'static str,
    token: AccessToken,
    file: PathBuf,
    complaint: Complaint,
}

impl WatchedToken {
    pub(super) fn look(&mut self) {
        let read = fs::read_to_string(&self.file).map_err(|error| error.to_string());
        let read = read.and_then(|text| AccessToken::new(&text).map_err(|error| error.to_string()));
        let name = self.name;
        match read {
            Ok(new) => {
                if self.token.replace(&new) {
                    say(format_args!("the {name} token was read again: from now on only what the file says is taken"));
                }
                self.complaint.clear();
            }
            Err(why) => {
                let file = self.file.display();
                let sentence =
                    format!("the {name} token was not read again, and the old one still holds: {file}: {why}");
                self.complaint.say(sentence);
            }
        }
    }
}
