use std::thread;

use crate::resp_client::{Reply, RespClient, frame, integers};
use crate::test_service::TestService;

#[test]
fn pipelined_commands_get_replies_in_order() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    let mut commands = Vec::new();
    for at in 0..1000 {
        commands.extend(frame(&["ECHO", &at.to_string()]));
        commands.extend(frame(&["CL.THROTTLE", "k", "999", "1", "60"]));
        commands.extend(b"TOLL.CHECK colour blue\r\n");
    }
    client.send(&commands);
    for at in 0..1000_i64 {
        assert_eq!(client.reply(), Reply::Bulk(at.to_string().into_bytes()));
        assert_eq!(client.reply(), integers(&[0, 1000, 999 - at, -1, 60 * (at + 1)]));
        assert!(matches!(client.reply(), Reply::List(_)));
    }
}

/// The replies are some megabytes: more than the buffers on both sides hold, so the service has to wait for its reader.
#[test]
fn slow_readers_get_every_reply() {
    const COMMANDS: usize = 5_000;
    let service = TestService::start();
    let mut reader = RespClient::open(service.resp);
    let mut writer = reader.try_clone();
    let sending = thread::spawn(move || writer.send(&frame(&["COMMAND", "DOCS"]).repeat(COMMANDS)));
    for _ in 0..COMMANDS {
        assert!(matches!(reader.reply(), Reply::List(parts) if parts.len() == 24));
    }
    sending.join().unwrap();
    assert!(matches!(reader.call("PING"), Reply::Simple(_)));
}

#[test]
fn concurrent_connections_get_their_own_replies() {
    let service = TestService::start();
    thread::scope(|scope| {
        for connection in 0..16 {
            let service = &service;
            scope.spawn(move || {
                let mut client = RespClient::open(service.resp);
                for at in 0..50 {
                    let text = format!("{connection}-{at}");
                    assert_eq!(client.call_with(&["ECHO", &text]), Reply::Bulk(text.into_bytes()));
                }
            });
        }
    });
}

/// A command that repeats the previous one is recognised by its bytes. Its reply must be that of a single command.
#[test]
fn repeated_commands_get_the_replies_of_single_ones() {
    let commands: Vec<Vec<u8>> = [
        frame(&["CL.THROTTLE", "one", "9", "5", "60"]),
        frame(&["CL.THROTTLE", "another key", "9", "5", "60"]),
        frame(&["CL.THROTTLE", "", "9", "5", "60"]),
        frame(&["CL.THROTTLE", "one", "9", "5", "60", "3"]),
        frame(&["CL.THROTTLE", "one", "9", "5", "60"]),
        frame(&["CL.THROTTLE", "one", "9", "5", "61"]),
        frame(&["CL.THROTTLE", "one", "9", "5", "61"]),
        frame(&["CL.THROTTLE", "$3\r\n", "9", "5", "61"]),
        frame(&["CL.THROTTLE", &"k".repeat(4_096), "9", "5", "61"]),
        frame(&["CL.THROTTLE", &"k".repeat(4_097), "9", "5", "61"]),
        b"CL.THROTTLE one 9 5 61\r\n".to_vec(),
        frame(&["cl.throttle", "one", "9", "5", "61"]),
        frame(&["CL.THROTTLE", "one", "9", "5"]),
        frame(&["CL.THROTTLE", "one", "9", "5", "x"]),
        frame(&["CL.THROTTLE", "one", "9", "5", "61"]),
    ]
    .into_iter()
    .flat_map(|command| [command.clone(), command])
    .collect();
    let single = TestService::start();
    let expected: Vec<Reply> = commands
        .iter()
        .map(|command| {
            let mut client = RespClient::open(single.resp);
            client.send(command);
            client.reply()
        })
        .collect();
    for piece in [usize::MAX, 1_000, 7] {
        let pipelined = TestService::start();
        let mut client = RespClient::open(pipelined.resp);
        commands.concat().chunks(piece.min(1 << 20)).for_each(|piece| client.send(piece));
        for (at, expected) in expected.iter().enumerate() {
            assert_eq!(&client.reply(), expected, "{}", String::from_utf8_lossy(&commands[at]));
        }
    }
}
