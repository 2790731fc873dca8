//! Protocol negotiation over TLS (ALPN), and gRPC over TLS.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use tollgate::policy::STARTER;
use tollgate_server::Tls;
use tonic::client::Grpc;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic_prost::ProstCodec;

use crate::authority::Authority;
use crate::test_service::TestService;

fn serving(authority: &Authority) -> TestService {
    let tls = Tls::load(authority.files(&authority.sign("localhost"), None)).unwrap();
    TestService::with_server(STARTER, |server| server.with_tls(tls))
}

/// Returns the ALPN protocol that is negotiated with a client that offers these.
fn negotiated(
    server: SocketAddr,
    client: &Arc<ClientConfig>,
    offered: &[&str],
) -> Result<Option<String>, rustls::Error> {
    let mut config = ClientConfig::clone(client);
    config.alpn_protocols = offered.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    while connection.is_handshaking() {
        if let Err(error) = connection.complete_io(&mut stream) {
            return Err(error.downcast().unwrap());
        }
    }
    Ok(connection.alpn_protocol().map(|protocol| String::from_utf8(protocol.to_vec()).unwrap()))
}

#[test]
fn each_listener_negotiates_its_alpn_protocol() {
    let authority = Authority::new("protocols");
    let service = serving(&authority);
    let client = authority.client(None);
    let both = ["h2", "http/1.1"];
    for (listener, expected) in [(service.http, "http/1.1"), (service.admin, "http/1.1"), (service.grpc, "h2")] {
        assert_eq!(negotiated(listener, &client, &both), Ok(Some(expected.to_owned())));
        // A client without ALPN is accepted.
        assert_eq!(negotiated(listener, &client, &[]), Ok(None));
    }
    assert_eq!(negotiated(service.resp, &client, &[]), Ok(None));
    // A handshake without a common protocol fails.
    let alert = rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol);
    assert_eq!(negotiated(service.http, &client, &["h2"]), Err(alert.clone()));
    assert_eq!(negotiated(service.grpc, &client, &["http/1.1"]), Err(alert));
}

#[test]
fn grpc_works_over_tls() {
    let authority = Authority::new("grpc");
    let service = serving(&authority);
    let trusted =
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority.issuer.pem())).domain_name("localhost");
    let endpoint = Endpoint::from_shared(format!("https://{}", service.grpc)).unwrap().tls_config(trusted).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let response = runtime.block_on(async {
        let mut client = Grpc::new(endpoint.connect().await.unwrap());
        client.ready().await.unwrap();
        let check = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
        // The messages do not matter, only the status.
        client.unary(tonic::Request::new(()), check, ProstCodec::<(), ()>::default()).await
    });
    assert!(response.is_ok(), "{response:?}");
}
