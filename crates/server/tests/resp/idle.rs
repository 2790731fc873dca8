//! Connections on which nothing happens.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollgate_server::ConnectionLimits;

use crate::running::Running;

const IDLE: Duration = Duration::from_secs(1);

fn connect(service: &Running) -> TcpStream {
    let stream = TcpStream::connect(service.resp).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn ping(stream: &mut TcpStream) {
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn who_is_silent_for_too_long_is_closed_with_or_without_a_command_before() {
    let service = Running::granting(ConnectionLimits { idle_timeout: IDLE, ..ConnectionLimits::default() });
    let begun = Instant::now();
    let (mut silent, mut asked) = (connect(&service), connect(&service));
    ping(&mut asked);
    for stream in [&mut silent, &mut asked] {
        // The end, and not that nothing came in time.
        assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
    }
    assert!(begun.elapsed() >= IDLE, "{:?}", begun.elapsed());
}
