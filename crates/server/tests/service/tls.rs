//! Encrypted listeners, and certificates that are replaced while they are in use.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tollgate::policy::STARTER;
use tollgate_server::{ConnectionLimits, Drained, Reloaded, Tls, TlsFiles};

use crate::authority::Authority;
use crate::running::Running;

struct Encrypted(StreamOwned<ClientConnection, TcpStream>);

impl Encrypted {
    fn open(server: std::net::SocketAddr, config: &Arc<ClientConfig>, name: &'static str) -> Encrypted {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let connection = ClientConnection::new(Arc::clone(config), ServerName::try_from(name).unwrap()).unwrap();
        Encrypted(StreamOwned::new(connection, stream))
    }

    /// The status line of an answer whose body is `ok`.
    fn ask(&mut self) -> std::io::Result<String> {
        self.0.write_all(b"GET /healthz HTTP/1.1\r\nhost: tollgate\r\n\r\n")?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok\n") {
            let mut bytes = [0; 1024];
            match self.0.read(&mut bytes)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                read => answer.extend_from_slice(&bytes[..read]),
            }
        }
        Ok(String::from_utf8_lossy(&answer).lines().next().unwrap().to_owned())
    }
}

fn serving(tls: &Tls) -> Running {
    Running::with(STARTER, |server| server.with_tls(tls.clone()))
}

const OK: &str = "HTTP/1.1 200 OK";

#[test]
fn every_listener_speaks_tls() {
    let authority = Authority::new("every");
    let tls = Tls::load(authority.files(&authority.sign("localhost"), None)).unwrap();
    let service = serving(&tls);
    let client = authority.client(None);
    let mut connection = Encrypted::open(service.http, &client, "localhost");
    assert_eq!(connection.ask().unwrap(), OK);
    assert_eq!(connection.ask().unwrap(), OK);
    let mut admin = Encrypted::open(service.admin, &client, "localhost");
    admin.0.write_all(b"GET /metrics HTTP/1.1\r\nhost: tollgate\r\n\r\n").unwrap();
    let mut bytes = [0; 15];
    admin.0.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, OK.as_bytes());
    // Who does not speak it gets nothing.
    let mut plain = TcpStream::connect(service.http).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: tollgate\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"));
}

#[test]
fn with_authorities_of_clients_nobody_else_is_let_in() {
    let (authority, clients, strangers) =
        (Authority::new("mutual"), Authority::new("clients"), Authority::new("strangers"));
    let tls = Tls::load(authority.files(&authority.sign("localhost"), Some(&clients))).unwrap();
    let service = serving(&tls);
    let known = authority.client(Some(&clients.sign("alice")));
    assert_eq!(Encrypted::open(service.http, &known, "localhost").ask().unwrap(), OK);
    for unknown in [authority.client(None), authority.client(Some(&strangers.sign("mallory")))] {
        assert!(Encrypted::open(service.http, &unknown, "localhost").ask().is_err());
    }
    // Why, is for the operator to know.
    let is_told = || {
        let told: Vec<String> = service.engine.observer().recent_events().iter().map(|event| event.to_json()).collect();
        let has = |what: &str| told.iter().any(|line| line.contains("TLS handshake on http: ") && line.contains(what));
        assert!(!told.iter().any(|line| line.contains("127.0.0.1")), "{told:?}");
        has("peer sent no certificates") && has("invalid peer certificate: UnknownIssuer")
    };
    for _ in 0..4_000 {
        if is_told() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{:?}", service.engine.observer().recent_events());
}

#[test]
fn new_certificates_are_met_by_new_connections_and_old_ones_stay() {
    let authority = Authority::new("reload");
    let tls = Tls::load(authority.files(&authority.sign("old.example"), None)).unwrap();
    let service = serving(&tls);
    let client = authority.client(None);
    let mut before = Encrypted::open(service.http, &client, "old.example");
    assert_eq!(before.ask().unwrap(), OK);
    assert_eq!(tls.reload().unwrap(), Reloaded::Unchanged);

    // A key that does not belong to the certificate changes nothing, and is told once.
    authority.write("key.pem", &authority.sign("other.example").key);
    assert!(tls.reload().is_err());
    assert_eq!(tls.reload().unwrap(), Reloaded::Unchanged);
    assert_eq!(Encrypted::open(service.http, &client, "old.example").ask().unwrap(), OK);

    authority.files(&authority.sign("new.example"), None);
    assert_eq!(tls.reload().unwrap(), Reloaded::Changed);
    assert_eq!(before.ask().unwrap(), OK);
    assert_eq!(Encrypted::open(service.http, &client, "new.example").ask().unwrap(), OK);
    assert!(Encrypted::open(service.http, &client, "old.example").ask().is_err());
}

#[test]
fn a_handshake_that_does_not_end_is_cut_off() {
    let authority = Authority::new("handshake");
    let tls = Tls::load(authority.files(&authority.sign("localhost"), None)).unwrap();
    let limits = ConnectionLimits { header_timeout: Duration::from_millis(300), ..ConnectionLimits::default() };
    let service = Running::with(STARTER, |server| server.with_tls(tls.clone()).with_limits(limits));
    let mut silent = TcpStream::connect(service.http).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(silent.read(&mut [0; 16]).unwrap(), 0);
    // And one that has begun does not hold up the end.
    let _begun = TcpStream::connect(service.http).unwrap();
    assert_eq!(service.drained(), Drained::Completely);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new("wrong");
    let good = authority.files(&authority.sign("localhost"), None);
    let empty = authority.write("empty.pem", "");
    let absent = authority.directory.join("absent.pem");
    let other = authority.write("other.pem", &authority.sign("localhost").key);
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let encrypted = authority.write("encrypted.pem", encrypted);
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let old = authority.write("old.pem", old);
    for (files, expected) in [
        (TlsFiles { certificate: absent.clone(), ..good.clone() }, "absent.pem: the file cannot be read: "),
        (TlsFiles { certificate: empty.clone(), ..good.clone() }, "empty.pem: there is no certificate in PEM"),
        (TlsFiles { key: empty.clone(), ..good.clone() }, "empty.pem: there is no private key in PEM"),
        (TlsFiles { key: other, ..good.clone() }, "certificate.pem: the certificate is not for the private key in "),
        (
            TlsFiles { key: encrypted, ..good.clone() },
            "encrypted.pem: the private key is encrypted, and nobody is asked",
        ),
        (TlsFiles { key: old, ..good.clone() }, "old.pem: the private key is encrypted"),
        (TlsFiles { client_authorities: Some(empty), ..good.clone() }, "empty.pem: there is no certificate in PEM"),
    ] {
        let told = Tls::load(files).unwrap_err().to_string();
        assert!(told.contains(expected), "{told}");
    }
}
