//! Commands that arrive in pieces.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::sync::watch;
use tollgate::ManualClock;
use tollgate_server::resp::{Parsed, Parser, RespLimits, serve_connection};

use crate::resp_client::frame;
use crate::test_service::engine;

/// A small store, because each of the many cases creates one.
const POLICY: &str = "version: 1
store: { memory: { entries: 100 } }
rules:
  - { name: per-ip, key: client_ip, limit: 60/min }
";

fn commands() -> Vec<u8> {
    let mut bytes = frame(&["CL.THROTTLE", "a key\r\n", "15", "30", "60", "2"]);
    bytes.extend(b"ECHO \"an inline command\"\r\n");
    bytes.extend(b"*0\r\n\r\n");
    bytes.extend(frame(&["TOLL.CHECK", "ip", "203.0.113.9", "COST", "12"]));
    bytes.extend(frame(&["ECHO", ""]));
    bytes.extend(frame(&["ECHO", &"x".repeat(300)]));
    bytes.extend(frame(&["PING"]));
    bytes
}

/// Returns the replies of a new service to these pieces.
fn replies_to(pieces: &[&[u8]]) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (mut client, server) = duplex(1 << 16);
        let engine = Arc::new(engine(POLICY, Arc::new(ManualClock::at(1))));
        let (_stopper, stopped) = watch::channel(false);
        let serving = tokio::spawn(serve_connection(server, engine, RespLimits::default(), None, stopped));
        for piece in pieces {
            client.write_all(piece).await.unwrap();
            // Lets the service read this piece before the next is sent.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        }
        client.shutdown().await.unwrap();
        let mut replies = String::new();
        client.read_to_string(&mut replies).await.unwrap();
        serving.await.unwrap().unwrap();
        replies
    })
}

#[test]
fn replies_do_not_depend_on_where_commands_are_split() {
    let bytes = commands();
    let expected = replies_to(&[&bytes]);
    assert!(expected.starts_with("*5\r\n:0\r\n:16\r\n:14\r\n") && expected.ends_with("x\r\n+PONG\r\n"), "{expected}");
    for cut in 1..bytes.len() {
        assert_eq!(replies_to(&[&bytes[..cut], &bytes[cut..]]), expected, "cut at {cut}");
    }
    assert_eq!(replies_to(&bytes.chunks(1).collect::<Vec<_>>()), expected);
}

#[test]
fn commands_that_arrive_byte_by_byte_are_parsed_incrementally() {
    let limits = RespLimits::default();
    let long = frame(&["ECHO", &"x".repeat(limits.argument_bytes)]);
    let many = frame(&vec!["x"; limits.arguments]);
    let inline = [vec![b'x'; limits.inline_bytes - 1], b"\r\n".to_vec()].concat();
    for bytes in [long, many, inline] {
        let mut parser = Parser::new(limits);
        for end in 0..bytes.len() {
            assert_eq!(parser.parse(&bytes[..end]), Ok(Parsed::Part), "{end}");
        }
        assert_eq!(parser.parse(&bytes), Ok(Parsed::Command(bytes.len())));
    }
}
