//! Commands that come a byte at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollgate_server::ConnectionLimits;

use crate::running::Running;

const COMMAND_AT_MOST: Duration = Duration::from_secs(1);

fn connect(service: &Running) -> TcpStream {
    let stream = TcpStream::connect(service.resp).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    stream
}

/// Sends a byte every 50 milliseconds. Returns how long the service has listened to it.
fn trickle(stream: &mut TcpStream, bytes: impl Iterator<Item = u8>) -> Duration {
    let begun = Instant::now();
    for byte in bytes {
        let is_closed = stream.write_all(&[byte]).is_err() || matches!(stream.read(&mut [0; 64]), Ok(0));
        if is_closed {
            break;
        }
    }
    begun.elapsed()
}

#[test]
fn a_command_that_trickles_is_closed_when_its_time_is_over() {
    let service = Running::granting(ConnectionLimits { body_timeout: COMMAND_AT_MOST, ..ConnectionLimits::default() });
    let typed = std::iter::repeat(b'x');
    let array = b"*2\r\n$4\r\nECHO\r\n$4000\r\n".iter().copied().chain(std::iter::repeat(b'x'));
    for bytes in [Box::new(typed) as Box<dyn Iterator<Item = u8>>, Box::new(array)] {
        // Far less than as many bytes would take.
        let listened = trickle(&mut connect(&service), bytes.take(200));
        assert!(listened >= COMMAND_AT_MOST && listened < 6 * COMMAND_AT_MOST, "{listened:?}");
    }
}

#[test]
fn commands_of_which_each_comes_in_time_are_answered() {
    let service = Running::granting(ConnectionLimits { body_timeout: COMMAND_AT_MOST, ..ConnectionLimits::default() });
    let mut stream = connect(&service);
    // Twice as long as one command may take.
    trickle(&mut stream, b"PING\r\n".iter().copied().cycle().take(42));
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"ECHO still-here\r\n").unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"still-here\r\n") {
        let mut more = [0; 64];
        let read = stream.read(&mut more).unwrap();
        assert!(read > 0, "it is closed");
        said.extend(&more[..read]);
    }
}
