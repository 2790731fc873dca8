//! Commands that arrive a byte at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollgate_server::ConnectionLimits;

use crate::test_service::TestService;

const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

fn connect(service: &TestService) -> TcpStream {
    let stream = TcpStream::connect(service.resp).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    stream
}

/// Sends a byte every 50 milliseconds, until the service closes the connection. Returns how long that took.
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
fn slow_commands_time_out() {
    let service =
        TestService::with_limits(ConnectionLimits { body_timeout: COMMAND_TIMEOUT, ..ConnectionLimits::default() });
    let inline = std::iter::repeat(b'x');
    let array = b"*2\r\n$4\r\nECHO\r\n$4000\r\n".iter().copied().chain(std::iter::repeat(b'x'));
    for bytes in [Box::new(inline) as Box<dyn Iterator<Item = u8>>, Box::new(array)] {
        // All bytes would take 10 seconds.
        let elapsed = trickle(&mut connect(&service), bytes.take(200));
        assert!(elapsed >= COMMAND_TIMEOUT && elapsed < 6 * COMMAND_TIMEOUT, "{elapsed:?}");
    }
}

#[test]
fn commands_that_each_arrive_in_time_get_replies() {
    let service =
        TestService::with_limits(ConnectionLimits { body_timeout: COMMAND_TIMEOUT, ..ConnectionLimits::default() });
    let mut stream = connect(&service);
    // Twice the timeout of one command.
    trickle(&mut stream, b"PING\r\n".iter().copied().cycle().take(42));
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"ECHO still-here\r\n").unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"still-here\r\n") {
        let mut more = [0; 64];
        let read = stream.read(&mut more).unwrap();
        assert!(read > 0, "the connection is closed");
        received.extend(&more[..read]);
    }
}
