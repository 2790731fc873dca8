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
use rustls::{CertificateError, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tollgate::policy::pem::{self, CERTIFICATE_HINT, PemProblem};

/// The PEM files of TLS.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate of the service, and its intermediate certificates.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The certificate authorities of clients. If set, clients without a valid certificate are refused.
    pub client_authorities: Option<PathBuf>,
}

/// TLS for listeners. Clones share the certificates, also after a reload.
#[derive(Clone)]
pub struct Tls(Arc<TlsState>);

struct TlsState {
    files: TlsFiles,
    config: ArcSwap<ServerConfig>,
    /// The fingerprint of the files when they were last read.
    seen: AtomicU64,
}

/// The result of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The files have not changed.
    Unchanged,
    /// New connections use the new certificates; open ones are not affected.
    Changed,
}

/// Why TLS files are not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: the file cannot be read: {error}", .file.display())]
    Unread {
        /// The file.
        file: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A file is not the expected PEM.
    #[error("{}: the file {what}", .file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What is wrong, as the rest of a sentence about the file.
        what: String,
        /// What the file must contain.
        hint: &'static str,
    },
    /// The private key needs a passphrase.
    #[error(
        "{0}: the private key is encrypted, and passphrases are not supported; `openssl pkey -in {0} -out FILE` writes it without one",
        .file.display()
    )]
    Encrypted {
        /// The key file.
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
    /// The content of a file is not usable.
    #[error("{}: {error}", .file.display())]
    Unusable {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        error: Box<dyn Error + Send + Sync>,
    },
}

impl TlsError {
    /// Returns how to repair the file, if the error has a hint.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            TlsError::Malformed { hint, .. } => Some(hint),
            TlsError::Mismatch { .. } => Some("the certificate of the service must be the first one in its file"),
            _ => None,
        }
    }
}

struct TlsFileContents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_authorities: Option<Vec<u8>>,
}

impl Tls {
    /// Loads the files.
    pub fn load(files: TlsFiles) -> Result<Tls, TlsError> {
        let contents = TlsFileContents::read(&files)?;
        let config = contents.config(&files)?;
        let seen = AtomicU64::new(contents.fingerprint());
        Ok(Tls(Arc::new(TlsState { files, config: ArcSwap::from_pointee(config), seen })))
    }

    /// Loads the files again. If they are invalid, the old ones stay in use, and the error is returned once.
    pub fn reload(&self) -> Result<Reloaded, TlsError> {
        let shared = &self.0;
        let contents = TlsFileContents::read(&shared.files)?;
        let fingerprint = contents.fingerprint();
        if shared.seen.swap(fingerprint, Ordering::Relaxed) == fingerprint {
            return Ok(Reloaded::Unchanged);
        }
        shared.config.store(Arc::new(contents.config(&shared.files)?));
        Ok(Reloaded::Changed)
    }

    /// Performs the TLS handshake.
    pub(super) async fn accept(&self, connection: TcpStream, protocols: &[&[u8]]) -> io::Result<TlsStream<TcpStream>> {
        let mut config = ServerConfig::clone(&self.0.config.load());
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config)).accept(connection).await
    }
}

impl TlsFileContents {
    fn read(files: &TlsFiles) -> Result<TlsFileContents, TlsError> {
        Ok(TlsFileContents {
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
                    roots.add(authority).map_err(|error| bad_certificate(pem, file, error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
                builder.with_client_cert_verifier(verifier.build().map_err(|error| unusable(file, error))?)
            }
            _ => builder.with_no_client_auth(),
        };
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| no_key(&self.key, &files.key))?;
        if provider.key_provider.load_private_key(key.clone_key()).is_err() {
            let what = "contains a private key that is damaged, or of a type that is not supported".to_owned();
            return Err(TlsError::Malformed { file: files.key.clone(), what, hint: KEY_TYPES_HINT });
        }
        let certificates = certificates(&self.certificate, &files.certificate)?;
        builder.with_single_cert(certificates, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::Mismatch { certificate: files.certificate.clone(), key: files.key.clone() }
            }
            error => bad_certificate(&self.certificate, &files.certificate, error),
        })
    }
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|error| TlsError::Unread { file: file.to_owned(), error })
}

fn certificates(pem: &[u8], file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| malformed(pem, file, error))?;
    match pem::certificate_problem(pem) {
        Some(problem) if found.is_empty() => Err(problem_of(file, problem)),
        _ => Ok(found),
    }
}

/// Returns why no key was found. A key with a passphrase is not supported, because nothing prompts for it.
fn no_key(pem: &[u8], file: &Path) -> TlsError {
    let has = |words: &[u8]| pem.windows(words.len()).any(|window| window == words);
    if has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"4,ENCRYPTED") {
        return TlsError::Encrypted { file: file.to_owned() };
    }
    let what = || "has no private key in PEM format".to_owned();
    let problem = pem::private_key_problem(pem);
    problem_of(file, problem.unwrap_or_else(|| PemProblem { what: what(), hint: pem::PRIVATE_KEY_HINT }))
}

/// The key types that the TLS library supports.
const KEY_TYPES_HINT: &str =
    "supported are RSA, ECDSA (P-256, P-384, P-521) and Ed25519 keys, in PKCS #8, PKCS #1 or SEC 1";

/// The error for a file of certificates that the library cannot read, with the line if it is known.
fn malformed(pem: &[u8], file: &Path, error: impl Into<Box<dyn Error + Send + Sync>>) -> TlsError {
    pem::certificate_problem(pem).map_or_else(|| unusable(file, error), |problem| problem_of(file, problem))
}

/// The error for a file of certificates that the library refuses.
fn bad_certificate(pem: &[u8], file: &Path, error: rustls::Error) -> TlsError {
    let rustls::Error::InvalidCertificate(reason) = error else { return malformed(pem, file, error) };
    if let Some(problem) = pem::certificate_problem(pem) {
        return problem_of(file, problem);
    }
    let (what, hint) = match reason {
        CertificateError::BadEncoding => ("contains a damaged certificate".to_owned(), CERTIFICATE_HINT),
        CertificateError::Other(other) if other.to_string() == "UnsupportedCertVersion" => {
            let what = "contains a certificate that is not X.509 version 3".to_owned();
            (what, "issue the certificate again as X.509 version 3")
        }
        reason => (format!("contains a certificate that cannot be used: {reason}"), CERTIFICATE_HINT),
    };
    problem_of(file, PemProblem { what, hint })
}

fn problem_of(file: &Path, PemProblem { what, hint }: PemProblem) -> TlsError {
    TlsError::Malformed { file: file.to_owned(), what, hint }
}

fn unusable(file: &Path, error: impl Into<Box<dyn Error + Send + Sync>>) -> TlsError {
    TlsError::Unusable { file: file.to_owned(), error: error.into() }
}

/// Omits the private key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.0.files).finish_non_exhaustive()
    }
}
