use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tollgate_server::{AccessToken, CallerAccess, Listeners};

use super::token_file::TokenSource;

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
    let is_exposed = |address: std::net::SocketAddr| !address.ip().to_canonical().is_loopback();
    all.into_iter().filter(|(_, address)| address.is_some_and(is_exposed)).map(|(name, _)| name).collect()
}
