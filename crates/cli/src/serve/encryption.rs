use std::path::PathBuf;

use clap::Args;
use tollgate_server::{Reloaded, Tls, TlsError, TlsFiles};

use super::access::Protection;
use crate::exit::Failure;
use crate::output::{RepeatedError, log_info};

/// TLS for every listener.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct TlsArguments {
    /// Serve TLS on every listener with this certificate chain (PEM)
    ///
    /// The chain is the service's certificate and the intermediate ones. The
    /// files are reloaded when they change; open connections stay.
    #[arg(long, value_name = "FILE", requires = "tls_key", env = "TOLLGATE_TLS_CERT", hide_env_values = true)]
    tls_cert: Option<PathBuf>,

    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", env = "TOLLGATE_TLS_KEY", hide_env_values = true)]
    tls_key: Option<PathBuf>,

    /// Require a client certificate signed by one of these CAs (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", env = "TOLLGATE_TLS_CLIENT_CA", hide_env_values = true)]
    tls_client_ca: Option<PathBuf>,
}

impl TlsArguments {
    pub(super) fn protection(&self) -> Protection {
        Protection { is_encrypted: self.tls_cert.is_some(), requires_client_certificates: self.tls_client_ca.is_some() }
    }

    /// Loads the certificate and the key; `None` without `--tls-cert`.
    pub(super) fn load(&self) -> Result<Option<Tls>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let files = TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_authorities: self.tls_client_ca.clone(),
        };
        let unusable = |error: TlsError| {
            let failure = Failure::failed(format!("cannot set up TLS: {error}"));
            match error.hint() {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            }
        };
        Tls::load(files).map(Some).map_err(unusable)
    }
}

/// Certificates that are reloaded when their files change.
pub(super) struct WatchedTls {
    tls: Tls,
    last_error: RepeatedError,
}

impl WatchedTls {
    pub(super) fn new(tls: Tls) -> WatchedTls {
        WatchedTls { tls, last_error: RepeatedError::default() }
    }

    /// Reloads the certificates if a file has changed.
    pub(super) fn check(&mut self) {
        match self.tls.reload() {
            Ok(Reloaded::Unchanged) => {}
            Ok(Reloaded::Changed) => {
                self.last_error.clear();
                log_info("TLS certificates reloaded: new connections use them");
            }
            Err(error) => {
                let hint = error.hint().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
                self.last_error
                    .log(format!("TLS certificates not reloaded, the previous ones stay in use: {error}{hint}"));
            }
        }
    }
}
