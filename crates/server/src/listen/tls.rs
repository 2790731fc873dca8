use std::error::Error;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Where certificates are, as PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate of this service, and those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of clients. With them, nobody without a certificate is let in.
    pub client_authorities: Option<PathBuf>,
}

/// TLS for listeners. All clones have the same certificates, also when they are replaced.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    files: TlsFiles,
    config: ArcSwap<ServerConfig>,
    /// What was in the files when they were last read.
    seen: AtomicU64,
}

/// What became of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// They are as they were when they were last read.
    Unchanged,
    /// New connections meet the new certificates; those that are open stay as they are.
    Changed,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: the file cannot be read: {error}", .file.display())]
    Unread {
        /// Which.
        file: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// A file has nothing of what it should have.
    #[error("{}: there is no {expected} in PEM in this file", .file.display())]
    Nothing {
        /// Which.
        file: PathBuf,
        /// What it should have.
        expected: &'static str,
    },
    /// The private key needs a passphrase.
    #[error(
        "{0}: the private key is encrypted, and nobody is asked for a passphrase; `openssl pkey -in {0} -out FILE` writes it without one",
        .file.display()
    )]
    Encrypted {
        /// Which file it is in.
        file: PathBuf,
    },
    /// The certificate is for another private key.
    #[error("{}: the certificate is not for the private key in {}", .certificate.display(), .key.display())]
    Mismatch {
        /// The file with the certificate.
        certificate: PathBuf,
        /// The file with the key.
        key: PathBuf,
    },
    /// What is in a file cannot be used.
    #[error("{}: {error}", .file.display())]
    Unusable {
        /// Which file is to blame.
        file: PathBuf,
        /// What is wrong.
        #[source]
        error: Box<dyn Error + Send + Sync>,
    },
}

struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_authorities: Option<Vec<u8>>,
}

impl Tls {
    /// Reads the files.
    pub fn load(files: TlsFiles) -> Result<Tls, TlsError> {
        let contents = Contents::read(&files)?;
        let config = contents.config(&files)?;
        let seen = AtomicU64::new(contents.fingerprint());
        Ok(Tls(Arc::new(Shared { files, config: ArcSwap::from_pointee(config), seen })))
    }

    /// Reads the files again. Where they are wrong, what held before still
    /// holds; the same mistake is told once.
    pub fn reload(&self) -> Result<Reloaded, TlsError> {
        let shared = &self.0;
        let contents = Contents::read(&shared.files)?;
        let fingerprint = contents.fingerprint();
        if shared.seen.swap(fingerprint, Ordering::Relaxed) == fingerprint {
            return Ok(Reloaded::Unchanged);
        }
        shared.config.store(Arc::new(contents.config(&shared.files)?));
        Ok(Reloaded::Changed)
    }

    /// Greets a client.
    pub(super) async fn accept(&self, connection: TcpStream, protocols: &[&[u8]]) -> io::Result<TlsStream<TcpStream>> {
        let mut config = ServerConfig::clone(&self.0.config.load());
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config)).accept(connection).await
    }
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Contents, TlsError> {
        Ok(Contents {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
            client_authorities: files.client_authorities.as_deref().map(read).transpose()?,
        })
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.certificate, &self.key, &self.client_authorities).hash(&mut hasher);
        hasher.finish()
    }

    fn config(&self, files: &TlsFiles) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&files.certificate, error))?;
        let builder = match (&self.client_authorities, &files.client_authorities) {
            (Some(pem), Some(file)) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(pem, file)? {
                    roots.add(authority).map_err(|error| unusable(file, error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(|error| unusable(file, error))?)
            }
            _ => builder.with_no_client_auth(),
        };
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| no_key(&self.key, &files.key))?;
        let certificates = certificates(&self.certificate, &files.certificate)?;
        builder.with_single_cert(certificates, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::Mismatch { certificate: files.certificate.clone(), key: files.key.clone() }
            }
            error => unusable(&files.certificate, error),
        })
    }
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|error| TlsError::Unread { file: file.to_owned(), error })
}

fn certificates(pem: &[u8], file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| unusable(file, error))?;
    if found.is_empty() {
        return Err(TlsError::Nothing { file: file.to_owned(), expected: "certificate" });
    }
    Ok(found)
}

/// Why no key was found: a key that needs a passphrase is none for who has nobody to ask.
fn no_key(pem: &[u8], file: &Path) -> TlsError {
    let has = |words: &[u8]| pem.windows(words.len()).any(|window| window == words);
    if has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"4,ENCRYPTED") {
        return TlsError::Encrypted { file: file.to_owned() };
    }
    TlsError::Nothing { file: file.to_owned(), expected: "private key" }
}

fn unusable(file: &Path, error: impl Into<Box<dyn Error + Send + Sync>>) -> TlsError {
    TlsError::Unusable { file: file.to_owned(), error: error.into() }
}

/// A private key is nothing to show.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.0.files).finish_non_exhaustive()
    }
}
