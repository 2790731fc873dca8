use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use tollgate::ManualClock;
use tollgate::policy::STARTER;
use tollgate_server::{BindError, Drained, Listener, Listeners, Server};

use crate::client::Connection;
use crate::running::{Running, engine};

#[test]
fn a_request_under_way_is_answered() {
    let mut service = Running::start();
    let body = r#"{"ip":"203.0.113.9"}"#;
    let mut connection = Connection::open(service.http);
    connection.begin_check(body.len());
    service.stop();
    while TcpStream::connect(service.http).is_ok() {
        std::thread::yield_now();
    }
    connection.send(body);
    assert_eq!(connection.response().json()["remaining"], 59);
    assert_eq!(service.drained(), Drained::Completely);
}

#[test]
fn an_idle_connection_does_not_hold_it_up() {
    let service = Running::start();
    let mut idle = Connection::open(service.http);
    assert_eq!(idle.request("GET", "/healthz", "").status, 200);
    assert_eq!(service.drained(), Drained::Completely);
}

fn bind(http: Option<SocketAddr>, admin: Option<SocketAddr>) -> Result<Server, BindError> {
    let engine = engine(STARTER, Arc::new(ManualClock::default()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Server::bind(Listeners { http, admin, ..Listeners::default() }, engine))
}

#[test]
fn an_address_that_is_taken_is_named() {
    let service = Running::start();
    match bind(None, Some(service.http)).unwrap_err() {
        BindError::Address { listener: Listener::Admin, address, source } => {
            assert_eq!((address, source.kind()), (service.http, io::ErrorKind::AddrInUse));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_admin_listener_stays_on_this_machine() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9090"] {
        let error = bind(None, address.parse().ok()).unwrap_err();
        assert!(matches!(error, BindError::AdminExposed(_)), "{error}");
    }
}
