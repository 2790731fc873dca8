use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use tollgate::ManualClock;
use tollgate::policy::STARTER;
use tollgate_server::{BindError, Drained, Listener, Listeners, Server};

use crate::client::Connection;
use crate::test_service::{TestService, engine};

#[test]
fn requests_in_flight_get_a_response() {
    let mut service = TestService::start();
    let body = r#"{"ip":"203.0.113.9"}"#;
    let mut connection = Connection::open(service.http);
    connection.begin_check(body.len());
    service.stop();
    while TcpStream::connect(service.http).is_ok() {
        std::thread::yield_now();
    }
    connection.send(body);
    assert_eq!(connection.response().json()["remaining"], 59);
    assert_eq!(service.shut_down(), Drained::Completely);
}

#[test]
fn idle_connections_do_not_delay_shutdown() {
    let service = TestService::start();
    let mut idle = Connection::open(service.http);
    assert_eq!(idle.request("GET", "/healthz", "").status, 200);
    assert_eq!(service.shut_down(), Drained::Completely);
}

fn bind(http: Option<SocketAddr>, admin: Option<SocketAddr>) -> Result<Server, BindError> {
    let engine = engine(STARTER, Arc::new(ManualClock::default()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Server::bind(Listeners { http, admin, ..Listeners::default() }, engine))
}

#[test]
fn bind_error_has_the_address_in_use() {
    let service = TestService::start();
    match bind(None, Some(service.http)).unwrap_err() {
        BindError::Address { listener: Listener::Admin, address, source } => {
            assert_eq!((address, source.kind()), (service.http, io::ErrorKind::AddrInUse));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn admin_listener_must_be_on_a_loopback_address() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9090"] {
        let error = bind(None, address.parse().ok()).unwrap_err();
        assert!(matches!(error, BindError::AdminExposed(_)), "{error}");
    }
}
