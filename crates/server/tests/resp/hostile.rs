//! Malformed and hostile input.

use tollgate_server::resp::{Parser, RespError, RespLimits};

use crate::resp_client::{Reply, RespClient, frame};
use crate::test_service::TestService;

#[test]
fn protocol_errors_get_a_reply_and_close_the_connection() {
    let service = TestService::start();
    for (bytes, expected) in [
        ("*1000000\r\n", "invalid multibulk length"),
        ("*1025\r\n", "invalid multibulk length"),
        ("*99999999999999999999\r\n", "invalid multibulk length"),
        ("*x\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*01\r\n", "invalid multibulk length"),
        ("*1\n", "invalid multibulk length"),
        ("*1\r\n$2000000000\r\n", "invalid bulk length"),
        ("*1\r\n$16385\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$\r\n", "invalid bulk length"),
        ("*1\r\n$4x\r\nPING\r\n", "invalid bulk length"),
        ("*1\r\n:4\r\n", "expected '$', got ':'"),
        ("*1\r\n*1\r\n", "expected '$', got '*'"),
        ("*1\r\n\r\n", "expected '$', got byte 13"),
        ("*1\r\n$4\r\nPINGS\r\n", "expected CRLF at the end of a bulk string"),
        ("*1\r\n$5\r\nPING\r\n*", "expected CRLF at the end of a bulk string"),
        ("*1\r\n$0000000000000000000000000000000000000001\r\n", "too big count string"),
        ("*1111111111111111111111111111111111111", "too big count string"),
        ("ECHO \"unbalanced\r\n", "unbalanced quotes in request"),
    ] {
        let mut client = RespClient::open(service.resp);
        client.send(b"*1\r\n$4\r\nPING\r\n");
        client.try_send(bytes.as_bytes());
        assert_eq!(client.read_to_end(), format!("+PONG\r\n-ERR Protocol error: {expected}\r\n"), "{bytes:?}");
    }
}

#[test]
fn oversized_commands_are_refused_early() {
    let limits = RespLimits::default();
    let parse = |bytes: &[u8]| Parser::new(limits).parse(bytes);
    assert_eq!(parse(b"*2\r\n$4\r\nECHO\r\n$16385\r\n"), Err(RespError::BulkLength));
    let mut frame = b"*9\r\n".to_vec();
    for _ in 0..3 {
        frame.extend(b"$16384\r\n");
        frame.extend(vec![b'x'; 16_384]);
        frame.extend(b"\r\n");
    }
    frame.extend(b"$16384\r\n");
    assert_eq!(parse(&frame), Err(RespError::FrameTooLong));
    assert_eq!(parse(&vec![b'x'; limits.inline_bytes + 1]), Err(RespError::InlineTooLong));
    assert_eq!(parse(&[vec![b'x'; limits.inline_bytes + 1], b"\n".to_vec()].concat()), Err(RespError::InlineTooLong));
    assert_eq!(parse(&[b"x ".repeat(1025), b"\n".to_vec()].concat()), Err(RespError::TooManyArguments));
}

#[test]
fn endless_inline_commands_are_cut_off() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    for _ in 0..100 {
        client.try_send(&[b'x'; 1024]);
    }
    let rest = client.read_to_end();
    // The reply can be lost if the connection is closed with unread bytes.
    assert!(rest.is_empty() || rest == "-ERR Protocol error: too big inline request\r\n", "{rest}");
}

#[test]
fn http_requests_cannot_carry_commands() {
    let service = TestService::start();
    for head in ["POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n"] {
        let mut client = RespClient::open(service.resp);
        client.send(format!("{head}\r\nCL.THROTTLE k 0 1 60\r\n").as_bytes());
        assert!(!client.read_to_end().contains("*5"), "{head}");
    }
    assert_eq!(
        RespClient::open(service.resp).call("CL.THROTTLE k 0 1 60 0"),
        crate::resp_client::integers(&[0, 1, 1, -1, 0])
    );
}

#[test]
fn commands_of_the_maximum_size_are_accepted() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    let long = "x".repeat(16_384);
    assert_eq!(client.call_with(&["ECHO", &long]), Reply::Bulk(long.clone().into_bytes()));
    assert!(matches!(client.call_with(&vec!["x"; 1024]), Reply::Error(_)));
    assert!(matches!(client.call_with(&["A", &long, &long, &long]), Reply::Error(_)));
    assert_eq!(client.call("PING"), Reply::Simple("PONG".to_owned()));
}

#[test]
fn a_disconnect_mid_command_affects_no_other_client() {
    let service = TestService::start();
    let bytes = frame(&["CL.THROTTLE", "k", "0", "1", "60"]);
    for cut in 0..bytes.len() {
        RespClient::open(service.resp).send(&bytes[..cut]);
    }
    let mut client = RespClient::open(service.resp);
    assert_eq!(client.call("CL.THROTTLE k 0 1 60"), crate::resp_client::integers(&[0, 1, 0, -1, 60]));
}
