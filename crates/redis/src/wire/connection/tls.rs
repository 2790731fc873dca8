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

/// Opens encrypted connections to servers that can prove who they are.
#[derive(Clone)]
pub(crate) struct TlsConnector {
    connector: tokio_rustls::TlsConnector,
    server_name: Option<ServerName<'static>>,
}

impl TlsConnector {
    pub(crate) fn new(options: &TlsOptions) -> Result<TlsConnector, OptionsError> {
        let roots = match &options.authority {
            Some(file) => roots_in(file)?,
            None => roots_of_the_system()?,
        };
        // Named here, because the process's default may be another one or none.
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

fn roots_in(file: &Path) -> Result<RootCertStore, OptionsError> {
    let trouble = |why: &dyn std::fmt::Display| OptionsError::Authority(format!("{}: {why}", file.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| trouble(&error))? {
        let certificate = certificate.map_err(|error| trouble(&error))?;
        roots.add(certificate).map_err(|error| trouble(&error))?;
    }
    if roots.is_empty() { Err(trouble(&"there is no certificate in it")) } else { Ok(roots) }
}

fn roots_of_the_system() -> Result<RootCertStore, OptionsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(|| "the system has none".to_owned(), ToString::to_string);
        return Err(OptionsError::Authority(why));
    }
    Ok(roots)
}
