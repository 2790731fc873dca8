use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::wire::connection::address::Address;
use crate::wire::options::{OptionsError, TlsOptions};

/// Opens TLS connections, and verifies the certificates of servers.
#[derive(Clone)]
pub(crate) struct TlsConnector {
    connector: tokio_rustls::TlsConnector,
    server_name: Option<ServerName<'static>>,
}

impl TlsConnector {
    pub(crate) fn new(options: &TlsOptions) -> Result<TlsConnector, OptionsError> {
        let roots = match &options.authority {
            Some(file) => roots_from_file(file)?,
            None => system_roots()?,
        };
        // Set explicitly, because the process may have another default provider or none.
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| OptionsError::Authority(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server_name = match &options.server_name {
            Some(name) => Some(ServerName::try_from(name.clone()).map_err(|_| OptionsError::ServerName(name.clone()))?),
            None => None,
        };
        Ok(TlsConnector { connector: tokio_rustls::TlsConnector::from(Arc::new(config)), server_name })
    }

    pub(crate) async fn open(&self, stream: TcpStream, address: &Address) -> io::Result<TlsStream<TcpStream>> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(address.host.to_string()).map_err(io::Error::other)?,
        };
        self.connector.connect(name, stream).await
    }
}

fn roots_from_file(file: &Path) -> Result<RootCertStore, OptionsError> {
    let failed = |reason: &dyn std::fmt::Display| OptionsError::Authority(format!("{}: {reason}", file.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| failed(&error))? {
        let certificate = certificate.map_err(|error| failed(&error))?;
        roots.add(certificate).map_err(|error| failed(&error))?;
    }
    if roots.is_empty() { Err(failed(&"the file contains no PEM certificate")) } else { Ok(roots) }
}

fn system_roots() -> Result<RootCertStore, OptionsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let no_certificates = || "the system has none: set a file with CA certificates".to_owned();
        let reason = found.errors.first().map_or_else(no_certificates, ToString::to_string);
        return Err(OptionsError::Authority(reason));
    }
    Ok(roots)
}
