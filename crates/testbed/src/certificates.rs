use std::path::PathBuf;
use std::{fs, io};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::directory::TemporaryDirectory;

/// A new certificate authority, and a certificate that it has issued for `localhost` and `127.0.0.1`.
#[derive(Debug)]
pub struct Certificates {
    directory: TemporaryDirectory,
}

impl Certificates {
    /// Generates the authority and the certificate. Each call creates another authority.
    pub fn new() -> io::Result<Certificates> {
        let directory = TemporaryDirectory::new("certificates")?;
        let certificates = Certificates { directory };
        certificates.write().map_err(|error| match error {
            GenerateError::Certificate(error) => io::Error::other(error),
            GenerateError::File(error) => error,
        })?;
        Ok(certificates)
    }

    fn write(&self) -> Result<(), GenerateError> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        fs::write(self.authority_file(), authority.pem())?;
        fs::write(self.certificate_file(), certificate.pem())?;
        fs::write(self.key_file(), key.serialize_pem())?;
        Ok(())
    }

    /// Returns the path of the authority's certificate, in PEM.
    #[must_use]
    pub fn authority_file(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }

    /// Returns the path of the server's certificate, in PEM.
    #[must_use]
    pub fn certificate_file(&self) -> PathBuf {
        self.directory.path().join("server.pem")
    }

    /// Returns the path of the server's private key, in PEM.
    #[must_use]
    pub fn key_file(&self) -> PathBuf {
        self.directory.path().join("server.key")
    }
}

enum GenerateError {
    Certificate(rcgen::Error),
    File(io::Error),
}

impl From<rcgen::Error> for GenerateError {
    fn from(error: rcgen::Error) -> GenerateError {
        GenerateError::Certificate(error)
    }
}

impl From<io::Error> for GenerateError {
    fn from(error: io::Error) -> GenerateError {
        GenerateError::File(error)
    }
}
