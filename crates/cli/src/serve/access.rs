//! Authentication on each listener: flags, and tokens from a file or an environment variable.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tollgate_server::{AccessToken, CallerAccess, Listeners};

use crate::exit::Failure;
use crate::output::{RepeatedError, log_info};

/// Authentication on the admin listener.
#[derive(Debug, Args)]
pub(super) struct AdminArguments {
    /// Require the token in this file on the admin listener, as `Authorization: Bearer TOKEN`
    ///
    /// The file is reloaded when it changes. Without it the token is taken from
    /// the variable TOLLGATE_ADMIN_TOKEN. Without either, the admin listener
    /// must have a loopback address.
    #[arg(long, value_name = "FILE", env = "TOLLGATE_ADMIN_TOKEN_FILE", hide_env_values = true)]
    admin_token_file: Option<PathBuf>,
}

impl AdminArguments {
    pub(super) fn token(&self) -> TokenSource<'_> {
        TokenSource { name: "admin", file: self.admin_token_file.as_deref(), variable: "TOLLGATE_ADMIN_TOKEN" }
    }

    /// Warnings about likely mistakes in the protection of the admin listener.
    pub(super) fn warnings(&self, is_exposed: bool, is_encrypted: bool) -> Vec<String> {
        let exposed = (is_exposed && !is_encrypted).then(|| {
            "the admin listener is reachable from other machines without TLS: the token can be read in transit; set \
             --tls-cert and --tls-key"
                .to_owned()
        });
        exposed.into_iter().chain(self.token().warning()).collect()
    }
}

/// Authentication on the listeners that answer decisions.
#[derive(Debug, Args)]
#[command(next_help_heading = "Callers")]
pub(super) struct CallerArguments {
    /// Require the token in this file on the HTTP, gRPC and RESP listeners
    ///
    /// Without the file the token is taken from the variable
    /// TOLLGATE_ACCESS_TOKEN.
    /// HTTP: `Authorization: Bearer TOKEN`, or `X-Tollgate-Token: TOKEN` for
    /// forward-auth, where Authorization belongs to the client. gRPC: the
    /// metadata `authorization: Bearer TOKEN`. RESP: `AUTH TOKEN`. Health checks
    /// need no token. The file is reloaded when it changes.
    #[arg(long, value_name = "FILE", env = "TOLLGATE_ACCESS_TOKEN_FILE", hide_env_values = true)]
    access_token_file: Option<PathBuf>,

    /// Serve GET /metrics on the HTTP listener too
    ///
    /// There it omits rules with `publish: false`. The admin listener always
    /// serves it, with all rules.
    #[arg(long, value_name = "ON|OFF", default_value = "on", env = "TOLLGATE_HTTP_METRICS", hide_env_values = true)]
    http_metrics: OnOff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnOff {
    On,
    Off,
}

/// How TLS protects the listeners.
#[derive(Clone, Copy)]
pub(super) struct Protection {
    pub(super) is_encrypted: bool,
    /// Whether clients must present a certificate.
    pub(super) requires_client_certificates: bool,
}

impl CallerArguments {
    pub(super) fn token(&self) -> TokenSource<'_> {
        TokenSource { name: "access", file: self.access_token_file.as_deref(), variable: "TOLLGATE_ACCESS_TOKEN" }
    }

    pub(super) fn access(&self, token: Option<AccessToken>) -> CallerAccess {
        CallerAccess { token, has_metrics: self.http_metrics == OnOff::On }
    }

    /// Warnings about likely mistakes in the protection of the callers' listeners.
    pub(super) fn warnings(&self, listeners: &Listeners, has_token: bool, protection: Protection) -> Vec<String> {
        let exposed = exposed(listeners);
        let mut warnings = Vec::new();
        if !exposed.is_empty() {
            let open = format!("open to other machines ({})", exposed.join(", "));
            match (has_token || protection.requires_client_certificates, protection.is_encrypted) {
                (false, false) => warnings.push(format!(
                    "listeners are {open} without a token and without TLS: every machine that reaches them can charge, \
                     refund and release in any client's name, and read other callers' requests; set --access-token-file and --tls-cert, \
                     or keep them within a network that you trust"
                )),
                (false, true) => warnings.push(format!(
                    "listeners are {open} without a token: every machine that reaches them can charge, refund and release \
                     in any client's name; set --access-token-file or --tls-client-ca"
                )),
                (true, false) => warnings.push(format!(
                    "listeners are {open} without TLS: the token can be read in transit; set --tls-cert and --tls-key"
                )),
                (true, true) => {}
            }
        }
        warnings.extend(self.token().warning());
        warnings
    }
}

/// The callers' listeners that other machines can reach.
fn exposed(listeners: &Listeners) -> Vec<&'static str> {
    let all = [("http", listeners.http), ("grpc", listeners.grpc), ("resp", listeners.resp)];
    all.into_iter().filter(|(_, address)| address.is_some_and(is_exposed)).map(|(name, _)| name).collect()
}

/// Whether other machines can reach an address.
pub(super) fn is_exposed(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

/// Where a token is read from.
pub(super) struct TokenSource<'a> {
    /// Which token it is: `admin` or `access`.
    pub(super) name: &'static str,
    pub(super) file: Option<&'a Path>,
    /// The environment variable that is read without a file.
    pub(super) variable: &'static str,
}

impl TokenSource<'_> {
    /// Reads the token; `None` if neither the file nor the variable is set.
    pub(super) fn read(&self) -> Result<Option<AccessToken>, Failure> {
        let (text, source) = match self.file {
            Some(file) => {
                let (name, source) = (self.name, file.display().to_string());
                let text = fs::read_to_string(file)
                    .map_err(|error| Failure::failed(format!("cannot read the {name} token in {source}: {error}")))?;
                (text, source)
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
            Failure::failed(format!("{source}: {error}")).with_hint("`openssl rand -hex 32` generates one")
        })
    }

    /// An empty variable is a configuration error, which must not turn authentication off.
    fn empty_variable(&self) -> Failure {
        let variable = self.variable;
        let sentence = format!("{variable} is set but empty; an empty token does not turn authentication off");
        Failure::failed(sentence)
            .with_hint(format!("`unset {variable}` to run without a token; `openssl rand -hex 32` generates one"))
    }

    /// A warning if other users of this machine may read the token.
    pub(super) fn warning(&self) -> Option<String> {
        let file = self.file.filter(|file| is_world_readable(file))?.display();
        Some(format!("every user of this machine can read the {} token in {file}: run `chmod 600 {file}`", self.name))
    }

    /// Returns a watcher that reloads `token` when its file changes; `None` without a file.
    pub(super) fn watch(&self, token: Option<&AccessToken>) -> Option<WatchedToken> {
        let (token, file) = (token?.clone(), self.file?.to_owned());
        Some(WatchedToken { name: self.name, token, file, last_error: RepeatedError::default() })
    }
}

fn is_world_readable(file: &Path) -> bool {
    const OTHERS_CAN_READ: u32 = 0o004;
    fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & OTHERS_CAN_READ != 0)
}

/// A token that is reloaded when its file changes.
pub(super) struct WatchedToken {
    name: &'static str,
    token: AccessToken,
    file: PathBuf,
    last_error: RepeatedError,
}

impl WatchedToken {
    /// Reloads the token if its file has changed.
    pub(super) fn check(&mut self) {
        let read = fs::read_to_string(&self.file).map_err(|error| error.to_string());
        let read = read.and_then(|text| AccessToken::new(&text).map_err(|error| error.to_string()));
        let name = self.name;
        match read {
            Ok(new) => {
                if self.token.replace(&new) {
                    log_info(format_args!("the {name} token was reloaded: only the new token is accepted from now on"));
                }
                self.last_error.clear();
            }
            Err(error) => {
                let file = self.file.display();
                let sentence =
                    format!("the {name} token was not reloaded, the previous one stays in use: {file}: {error}");
                self.last_error.log(sentence);
            }
        }
    }
}
