use std::path::PathBuf;
use std::{fs, io};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::directory::TemporaryDirectory;

/// An authority of its own, and a certificate that it gave to `localhost` and `127.0.0.1`.
#[derive(Debug)]
pub struct Certificates {
    directory: TemporaryDirectory,
}

impl Certificates {
    /// Makes them. Two of these do not trust each other.
    pub fn new() -> io::Result<Certificates> {
        let directory = TemporaryDirectory::new("certificates")?;
        let certificates = Certificates { directory };
        certificates.write().map_err(|error| match error {
            Trouble::Certificate(error) => io::Error::other(error),
            Trouble::File(error) => error,
        })?;
        Ok(certificates)
    }

    fn write(&self) -> Result<(), Trouble> {
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

    /// The certificate of the authority, as PEM.
    #[must_use]
    pub fn authority_file(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }

    /// The server's certificate, as PEM.
    #[must_use]
    pub fn certificate_file(&self) -> PathBuf {
        self.directory.path().join("server.pem")
    }

    /// The server's private key, as PEM.
    #[must_use]
    pub fn key_file(&self) -> PathBuf {
        self.directory.path().join("server.key")
    }
}

enum Trouble {
    Certificate(rcgen::Error),
    File(io::Error),
}

impl From<rcgen::Error> for Trouble {
    fn from(error: rcgen::Error) -> Trouble {
        Trouble::Certificate(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::File(error)
    }
}
