use std::path::PathBuf;

use clap::Args;
use tollgate_server::{Reloaded, Tls, TlsError, TlsFiles};

use super::access::Protection;
use crate::exit::Failure;
use crate::output::{Complaint, say};

/// TLS on every listener.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct TlsArguments {
    /// The service's certificate in PEM, with those between it and its authority: every listener speaks TLS
    ///
    /// The files are read again when they change; open connections stay.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// The authorities of clients in PEM: only clients with a certificate of theirs are let in
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
}

impl TlsArguments {
    pub(super) fn protection(&self) -> Protection {
        Protection { is_encrypted: self.tls_cert.is_some(), asks_for_certificates: self.tls_client_ca.is_some() }
    }

    /// What it takes to speak TLS, if that is wanted.
    pub(super) fn load(&self) -> Result<Option<Tls>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let files = TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_authorities: self.tls_client_ca.clone(),
        };
        let unusable = |error: TlsError| Failure::failed(format!("cannot speak TLS: {error}"));
        Tls::load(files).map(Some).map_err(unusable)
    }
}

/// Certificates that are read again when their files change.
pub(super) struct WatchedTls {
    tls: Tls,
    complaint: Complaint,
}

impl WatchedTls {
    pub(super) fn new(tls: Tls) -> WatchedTls {
        WatchedTls { tls, complaint: Complaint::default() }
    }

    pub(super) fn look(&mut self) {
        match self.tls.reload() {
            Ok(Reloaded::Unchanged) => {}
            Ok(Reloaded::Changed) => {
                self.complaint.clear();
                say("certificates were read again: new connections meet the new ones");
            }
            Err(error) => {
                self.complaint.say(format!("certificates were not read again, and the old ones still hold: {error}"));
            }
        }
    }
}
