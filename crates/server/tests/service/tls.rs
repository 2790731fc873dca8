//! TLS listeners, and certificates that are reloaded while in use.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tollgate::policy::STARTER;
use tollgate_server::{ConnectionLimits, Drained, Reloaded, Tls, TlsFiles};

use crate::authority::Authority;
use crate::test_service::TestService;

struct TlsConnection(StreamOwned<ClientConnection, TcpStream>);

impl TlsConnection {
    fn open(server: std::net::SocketAddr, config: &Arc<ClientConfig>, name: &'static str) -> TlsConnection {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let connection = ClientConnection::new(Arc::clone(config), ServerName::try_from(name).unwrap()).unwrap();
        TlsConnection(StreamOwned::new(connection, stream))
    }

    /// Requests `/healthz`, and returns the status line of the response.
    fn get_health(&mut self) -> std::io::Result<String> {
        self.0.write_all(b"GET /healthz HTTP/1.1\r\nhost: tollgate\r\n\r\n")?;
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\nok\n") {
            let mut bytes = [0; 1024];
            match self.0.read(&mut bytes)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                read => response.extend_from_slice(&bytes[..read]),
            }
        }
        Ok(String::from_utf8_lossy(&response).lines().next().unwrap().to_owned())
    }
}

fn serving(tls: &Tls) -> TestService {
    TestService::with_server(STARTER, |server| server.with_tls(tls.clone()))
}

const OK: &str = "HTTP/1.1 200 OK";

#[test]
fn http_and_admin_listeners_use_tls() {
    let authority = Authority::new("every");
    let tls = Tls::load(authority.files(&authority.sign("localhost"), None)).unwrap();
    let service = serving(&tls);
    let client = authority.client(None);
    let mut connection = TlsConnection::open(service.http, &client, "localhost");
    assert_eq!(connection.get_health().unwrap(), OK);
    assert_eq!(connection.get_health().unwrap(), OK);
    let mut admin = TlsConnection::open(service.admin, &client, "localhost");
    admin.0.write_all(b"GET /metrics HTTP/1.1\r\nhost: tollgate\r\n\r\n").unwrap();
    let mut bytes = [0; 15];
    admin.0.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, OK.as_bytes());
}

/// Everything that a listener sends in response to bytes that are not TLS.
fn send_plaintext(server: std::net::SocketAddr, bytes: &[u8]) -> String {
    let mut plain = TcpStream::connect(server).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    plain.write_all(bytes).unwrap();
    let mut response = Vec::new();
    let _ = plain.read_to_end(&mut response);
    String::from_utf8(response).unwrap()
}

#[test]
fn plain_http_to_a_tls_listener_gets_400() {
    let authority = Authority::new("plaintext");
    let tls = Tls::load(authority.files(&authority.sign("localhost"), None)).unwrap();
    let service = serving(&tls);
    let get = b"GET /healthz HTTP/1.1\r\nhost: tollgate\r\n\r\n".as_slice();
    let post =
        [b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 9000\r\n\r\n".as_slice(), &[b' '; 9_000]].concat();
    for (listener, request) in [(service.http, get), (service.http, &post), (service.admin, get)] {
        let response = send_plaintext(listener, request);
        assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{response}");
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{response}");
        assert_eq!(body, "this port expects HTTPS: use an https:// URL.\n");
    }
    for (listener, bytes) in
        [(service.grpc, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice()), (service.resp, b"PING\r\n")]
    {
        assert_eq!(send_plaintext(listener, bytes), "");
    }
    // The response may arrive before the connection is counted.
    let expected = [("http", 2), ("admin", 1), ("grpc", 1), ("resp", 1)].map(|(listener, count)| {
        format!("tollgate_tls_handshake_errors_total{{listener=\"{listener}\",reason=\"plaintext\"}} {count}\n")
    });
    let is_counted = || {
        let metrics = service.engine.metrics_text();
        expected.iter().all(|line| metrics.contains(line.as_str()))
    };
    assert!((0..4_000).any(|_| is_counted() || {
        std::thread::sleep(Duration::from_millis(5));
        false
    }));
    let logged: Vec<String> = service.engine.observer().recent_events().iter().map(|event| event.to_json()).collect();
    let has = |text: &str| logged.iter().any(|line| line.contains(text));
    assert!(has("it sent plain http to a TLS listener; connect with https://"), "{logged:?}");
    assert!(has("TLS handshake on resp failed for ") && has("connect with rediss://"), "{logged:?}");
}

#[test]
fn client_ca_requires_client_certificates() {
    let (authority, clients, strangers) =
        (Authority::new("mutual"), Authority::new("clients"), Authority::new("strangers"));
    let tls = Tls::load(authority.files(&authority.sign("localhost"), Some(&clients))).unwrap();
    let service = serving(&tls);
    let known = authority.client(Some(&clients.sign("alice")));
    assert_eq!(TlsConnection::open(service.http, &known, "localhost").get_health().unwrap(), OK);
    for unknown in [authority.client(None), authority.client(Some(&strangers.sign("mallory")))] {
        assert!(TlsConnection::open(service.http, &unknown, "localhost").get_health().is_err());
    }
    // The reasons are in the log.
    let is_logged = || {
        let logged: Vec<String> =
            service.engine.observer().recent_events().iter().map(|event| event.to_json()).collect();
        let has = |cause: &str| {
            logged.iter().any(|line| line.contains("TLS handshake on http failed for ") && line.contains(cause))
        };
        assert!(!logged.iter().any(|line| line.contains("127.0.0.1")), "{logged:?}");
        has("peer sent no certificates") && has("invalid peer certificate: UnknownIssuer")
    };
    for _ in 0..4_000 {
        if is_logged() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{:?}", service.engine.observer().recent_events());
}

#[test]
fn reloaded_certificates_apply_to_new_connections_only() {
    let authority = Authority::new("reload");
    let tls = Tls::load(authority.files(&authority.sign("old.example"), None)).unwrap();
    let service = serving(&tls);
    let client = authority.client(None);
    let mut before = TlsConnection::open(service.http, &client, "old.example");
    assert_eq!(before.get_health().unwrap(), OK);
    assert_eq!(tls.reload().unwrap(), Reloaded::Unchanged);

    // A key that does not belong to the certificate changes nothing, and is reported once.
    authority.write("key.pem", &authority.sign("other.example").key);
    assert!(tls.reload().is_err());
    assert_eq!(tls.reload().unwrap(), Reloaded::Unchanged);
    assert_eq!(TlsConnection::open(service.http, &client, "old.example").get_health().unwrap(), OK);

    authority.files(&authority.sign("new.example"), None);
    assert_eq!(tls.reload().unwrap(), Reloaded::Changed);
    assert_eq!(before.get_health().unwrap(), OK);
    assert_eq!(TlsConnection::open(service.http, &client, "new.example").get_health().unwrap(), OK);
    assert!(TlsConnection::open(service.http, &client, "old.example").get_health().is_err());
}

#[test]
fn incomplete_handshakes_time_out() {
    let authority = Authority::new("handshake");
    let tls = Tls::load(authority.files(&authority.sign("localhost"), None)).unwrap();
    let limits = ConnectionLimits { header_timeout: Duration::from_millis(300), ..ConnectionLimits::default() };
    let service = TestService::with_server(STARTER, |server| server.with_tls(tls.clone()).with_limits(limits));
    let mut idle = TcpStream::connect(service.http).unwrap();
    idle.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(idle.read(&mut [0; 16]).unwrap(), 0);
    // A handshake that has begun does not delay shutdown.
    let _begun = TcpStream::connect(service.http).unwrap();
    assert_eq!(service.shut_down(), Drained::Completely);
}

#[test]
fn tls_errors_name_the_file() {
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
        (TlsFiles { certificate: empty.clone(), ..good.clone() }, "empty.pem: the file has no certificate in PEM"),
        (TlsFiles { key: empty.clone(), ..good.clone() }, "empty.pem: the file has no private key in PEM"),
        (TlsFiles { key: other, ..good.clone() }, "certificate.pem: the certificate is not for the private key in "),
        (TlsFiles { key: encrypted, ..good.clone() }, "encrypted.pem: the private key is encrypted, and passphrases"),
        (TlsFiles { key: old, ..good.clone() }, "old.pem: the private key is encrypted"),
        (TlsFiles { client_authorities: Some(empty), ..good.clone() }, "empty.pem: the file has no certificate in PEM"),
    ] {
        let error = Tls::load(files).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn tls_errors_about_damaged_files_have_a_line_and_a_hint() {
    let authority = Authority::new("damaged");
    let good = authority.files(&authority.sign("localhost"), None);
    let certificate = std::fs::read_to_string(&good.certificate).unwrap();
    let key = std::fs::read_to_string(&good.key).unwrap();
    let without_end = |pem: &str| pem.lines().filter(|line| !line.contains("-----END")).collect::<Vec<_>>().join("\n");
    let other = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n".to_owned();
    // The form of a certificate, with empty parts. It has no version.
    let hollow = "-----BEGIN CERTIFICATE-----\nMAcwADAA\nAwEA\n-----END CERTIFICATE-----\n".to_owned();
    let flawed = certificate.replacen("MII", "M!I", 1);
    let no_certificate = "bad.pem: the file contains no certificate in the section that begins at line 1";
    for (pem, expected) in [
        (flawed, "bad.pem: the file is not valid PEM: line 2 contains `!`, which is not base64"),
        (
            without_end(&certificate),
            "bad.pem: the file is not valid PEM: the line `-----END CERTIFICATE-----` is missing",
        ),
        (other, no_certificate),
        (hollow, "bad.pem: the file contains a "),
        (key.clone(), "bad.pem: the file has no certificate in PEM format"),
    ] {
        let bad = authority.write("bad.pem", &pem);
        for files in [
            TlsFiles { certificate: bad.clone(), ..good.clone() },
            TlsFiles { client_authorities: Some(bad.clone()), ..good.clone() },
        ] {
            let error = Tls::load(files).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            let hint = error.hint().unwrap();
            assert!(hint.contains("`-----BEGIN CERTIFICATE-----`") || hint.contains("version 3"), "{error:?}");
        }
    }
    for (pem, expected, hint) in [
        (without_end(&key), "the line `-----END PRIVATE KEY-----` is missing", "`-----BEGIN PRIVATE KEY-----`"),
        (key.replacen("MIG", "M!G", 1), "line 2 contains `!`, which is not base64", "`-----BEGIN PRIVATE KEY-----`"),
        (
            "-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n".to_owned(),
            "contains a private key that is damaged, or of a type that is not supported",
            "supported are RSA",
        ),
    ] {
        let error = Tls::load(TlsFiles { key: authority.write("bad.key", &pem), ..good.clone() }).unwrap_err();
        assert!(error.to_string().ends_with(expected) && error.hint().unwrap().contains(hint), "{error:?}");
    }
}
