//! Idle connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollgate_server::ConnectionLimits;

use crate::test_service::TestService;

const IDLE: Duration = Duration::from_secs(1);

fn connect(service: &TestService) -> TcpStream {
    let stream = TcpStream::connect(service.resp).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn ping(stream: &mut TcpStream) {
    stream.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

#[test]
fn idle_connections_are_closed() {
    let service = TestService::with_limits(ConnectionLimits { idle_timeout: IDLE, ..ConnectionLimits::default() });
    let begun = Instant::now();
    let (mut unused, mut used) = (connect(&service), connect(&service));
    ping(&mut used);
    for stream in [&mut unused, &mut used] {
        // The end of the stream, not a read timeout.
        assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
    }
    assert!(begun.elapsed() >= IDLE, "{:?}", begun.elapsed());
}
