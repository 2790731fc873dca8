//! What nobody sends who means well.

use tollgate_server::resp::{Parser, ProtocolError, RespLimits};

use crate::resp_client::{Answer, RespClient, frame};
use crate::running::Running;

#[test]
fn what_cannot_be_understood_is_answered_and_ends_the_connection() {
    let service = Running::start();
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
        assert_eq!(client.rest(), format!("+PONG\r\n-ERR Protocol error: {expected}\r\n"), "{bytes:?}");
    }
}

#[test]
fn what_is_too_long_is_refused_before_it_has_come() {
    let limits = RespLimits::default();
    let parse = |bytes: &[u8]| Parser::new(limits).parse(bytes);
    assert_eq!(parse(b"*2\r\n$4\r\nECHO\r\n$16385\r\n"), Err(ProtocolError::BulkLength));
    let mut frame = b"*9\r\n".to_vec();
    for _ in 0..3 {
        frame.extend(b"$16384\r\n");
        frame.extend(vec![b'x'; 16_384]);
        frame.extend(b"\r\n");
    }
    frame.extend(b"$16384\r\n");
    assert_eq!(parse(&frame), Err(ProtocolError::FrameTooLong));
    assert_eq!(parse(&vec![b'x'; limits.inline_bytes + 1]), Err(ProtocolError::InlineTooLong));
    assert_eq!(
        parse(&[vec![b'x'; limits.inline_bytes + 1], b"\n".to_vec()].concat()),
        Err(ProtocolError::InlineTooLong)
    );
    assert_eq!(parse(&[b"x ".repeat(1025), b"\n".to_vec()].concat()), Err(ProtocolError::TooManyArguments));
}

#[test]
fn a_line_without_end_is_cut_off() {
    let service = Running::start();
    let mut client = RespClient::open(service.resp);
    for _ in 0..100 {
        client.try_send(&[b'x'; 1024]);
    }
    let rest = client.rest();
    // The answer can be lost where it had to hang up with bytes unread.
    assert!(rest.is_empty() || rest == "-ERR Protocol error: too big inline request\r\n", "{rest}");
}

#[test]
fn a_web_page_cannot_send_commands() {
    let service = Running::start();
    for head in ["POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n"] {
        let mut client = RespClient::open(service.resp);
        client.send(format!("{head}\r\nCL.THROTTLE k 0 1 60\r\n").as_bytes());
        assert!(!client.rest().contains("*5"), "{head}");
    }
    assert_eq!(
        RespClient::open(service.resp).call("CL.THROTTLE k 0 1 60 0"),
        crate::resp_client::integers(&[0, 1, 1, -1, 0])
    );
}

#[test]
fn commands_of_the_largest_size_are_understood() {
    let service = Running::start();
    let mut client = RespClient::open(service.resp);
    let long = "x".repeat(16_384);
    assert_eq!(client.call_with(&["ECHO", &long]), Answer::Bulk(long.clone().into_bytes()));
    assert!(matches!(client.call_with(&vec!["x"; 1024]), Answer::Error(_)));
    assert!(matches!(client.call_with(&["A", &long, &long, &long]), Answer::Error(_)));
    assert_eq!(client.call("PING"), Answer::Simple("PONG".to_owned()));
}

#[test]
fn who_leaves_in_the_middle_disturbs_nobody() {
    let service = Running::start();
    let bytes = frame(&["CL.THROTTLE", "k", "0", "1", "60"]);
    for cut in 0..bytes.len() {
        RespClient::open(service.resp).send(&bytes[..cut]);
    }
    let mut client = RespClient::open(service.resp);
    assert_eq!(client.call("CL.THROTTLE k 0 1 60"), crate::resp_client::integers(&[0, 1, 0, -1, 60]));
}
