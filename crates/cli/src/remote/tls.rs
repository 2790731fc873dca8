//! TLS to a service.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Encrypts a connection. The server's certificate must be for `host`, and signed by one of the authorities in the
/// file, or by one of the system.
pub(super) fn encrypt(
    host: &str,
    authorities: Option<&Path>,
    connection: TcpStream,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(file) => add_file(&mut roots, file)?,
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(io::Error::other("there is no certificate of an authority: name a file with --ca"));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let client = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(client, connection))
}

fn add_file(roots: &mut RootCertStore, file: &Path) -> io::Result<()> {
    let failed = |error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", file.display()));
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| failed(&error))? {
        roots.add(certificate.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
    }
    Ok(())
}
