//! A certificate authority for tests.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tollgate_server::TlsFiles;

/// A certificate authority, and a directory for its files.
pub(crate) struct Authority {
    pub(crate) issuer: CertifiedIssuer<'static, KeyPair>,
    pub(crate) directory: PathBuf,
}

/// A certificate and its key, as PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate whose issuer has the same name for self-signed.
        params.distinguished_name.push(DnType::CommonName, format!("the authority {name}"));
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = std::env::temp_dir().join(format!("tollgate-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Authority { issuer, directory }
    }

    pub(crate) fn sign(&self, name: &str) -> Signed {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Signed { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    pub(crate) fn write(&self, file: &str, pem: &str) -> PathBuf {
        let path = self.directory.join(file);
        std::fs::write(&path, pem).unwrap();
        path
    }

    pub(crate) fn files(&self, signed: &Signed, client_authorities: Option<&Authority>) -> TlsFiles {
        TlsFiles {
            certificate: self.write("certificate.pem", &signed.certificate),
            key: self.write("key.pem", &signed.key),
            client_authorities: client_authorities.map(|other| self.write("clients.pem", &other.issuer.pem())),
        }
    }

    /// Creates a client configuration that trusts this authority, with an optional client certificate.
    pub(crate) fn client(&self, signed: Option<&Signed>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match signed {
            None => builder.with_no_client_auth(),
            Some(signed) => {
                let certificate = CertificateDer::from_pem_slice(signed.certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(signed.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        })
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
