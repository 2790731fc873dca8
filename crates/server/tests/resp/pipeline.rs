use std::thread;

use crate::resp_client::{Answer, RespClient, frame, integers};
use crate::running::Running;

#[test]
fn commands_that_come_together_are_answered_in_order() {
    let service = Running::start();
    let mut client = RespClient::open(service.resp);
    let mut together = Vec::new();
    for at in 0..1000 {
        together.extend(frame(&["ECHO", &at.to_string()]));
        together.extend(frame(&["CL.THROTTLE", "k", "999", "1", "60"]));
        together.extend(b"TOLL.CHECK colour blue\r\n");
    }
    client.send(&together);
    for at in 0..1000_i64 {
        assert_eq!(client.answer(), Answer::Bulk(at.to_string().into_bytes()));
        assert_eq!(client.answer(), integers(&[0, 1000, 999 - at, -1, 60 * (at + 1)]));
        assert!(matches!(client.answer(), Answer::List(_)));
    }
}

/// Answers of some megabytes: more than all buffers between the two hold, so that it has to wait for its reader.
#[test]
fn a_client_that_reads_late_gets_every_answer() {
    const COMMANDS: usize = 5_000;
    let service = Running::start();
    let mut reader = RespClient::open(service.resp);
    let mut writer = reader.try_clone();
    let sending = thread::spawn(move || writer.send(&frame(&["COMMAND", "DOCS"]).repeat(COMMANDS)));
    for _ in 0..COMMANDS {
        assert!(matches!(reader.answer(), Answer::List(parts) if parts.len() == 24));
    }
    sending.join().unwrap();
    assert!(matches!(reader.call("PING"), Answer::Simple(_)));
}

#[test]
fn many_connections_at_once_each_get_their_own() {
    let service = Running::start();
    thread::scope(|scope| {
        for connection in 0..16 {
            let service = &service;
            scope.spawn(move || {
                let mut client = RespClient::open(service.resp);
                for at in 0..50 {
                    let text = format!("{connection}-{at}");
                    assert_eq!(client.call_with(&["ECHO", &text]), Answer::Bulk(text.into_bytes()));
                }
            });
        }
    });
}

/// A command that follows the same one is recognised by its bytes. It must be answered as if it came alone.
#[test]
fn commands_that_repeat_are_answered_like_those_that_come_alone() {
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
    let alone = Running::start();
    let expected: Vec<Answer> = commands
        .iter()
        .map(|command| {
            let mut client = RespClient::open(alone.resp);
            client.send(command);
            client.answer()
        })
        .collect();
    for piece in [usize::MAX, 1_000, 7] {
        let together = Running::start();
        let mut client = RespClient::open(together.resp);
        commands.concat().chunks(piece.min(1 << 20)).for_each(|piece| client.send(piece));
        for (at, expected) in expected.iter().enumerate() {
            assert_eq!(&client.answer(), expected, "{}", String::from_utf8_lossy(&commands[at]));
        }
    }
}
