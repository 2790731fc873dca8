//! What clients send before their first command, answered in Redis' own words.

use crate::resp_client::{Answer, RespClient, bulk, error, ok};
use crate::running::Running;

fn simple(word: &str) -> Answer {
    Answer::Simple(word.to_owned())
}

/// Errors tell people to try it.
#[test]
fn whoever_asks_for_help_is_helped() {
    let service = Running::start();
    let mut client = RespClient::open(service.resp);
    for (command, subcommands) in [
        ("CLIENT", &["GETNAME", "HELP", "ID", "INFO", "LIST", "NO-EVICT", "SETINFO", "SETNAME"][..]),
        ("COMMAND", &["(none)", "COUNT", "DOCS", "HELP", "INFO", "LIST"]),
    ] {
        let Answer::List(lines) = client.call(&format!("{command} help")) else { panic!("no list") };
        let told: Vec<String> = lines.iter().skip(1).map(|line| format!("{line:?}")).collect();
        for (line, subcommand) in told.iter().zip(subcommands) {
            assert!(line.contains(&format!("\"{subcommand}")), "{line}");
        }
        assert_eq!(told.len(), subcommands.len());
        let expected = error(&format!("ERR wrong number of arguments for '{}|help' command", command.to_lowercase()));
        assert_eq!(client.call(&format!("{command} HELP me")), expected);
    }
}

#[test]
fn redis_words_are_used() {
    let service = Running::start();
    let mut client = RespClient::open(service.resp);
    for (command, expected) in [
        ("PING", simple("PONG")),
        ("ping hello", bulk("hello")),
        ("PING a b", error("ERR wrong number of arguments for 'ping' command")),
        ("ECHO hello", bulk("hello")),
        ("ECHO", error("ERR wrong number of arguments for 'echo' command")),
        ("SELECT 0", ok()),
        ("SELECT 1", error("ERR DB index is out of range")),
        ("SELECT -1", error("ERR DB index is out of range")),
        ("SELECT x", error("ERR value is not an integer or out of range")),
        ("AUTH default anything", ok()),
        ("AUTH somebody anything", error("WRONGPASS invalid username-password pair or user is disabled.")),
        (
            "AUTH secret",
            error(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ),
        ),
        ("AUTH a b c", error("ERR syntax error")),
        ("CLIENT SETINFO LIB-NAME redis-py", ok()),
        ("CLIENT SETINFO lib-ver 8.1.0", ok()),
        ("CLIENT SETINFO lib-colour blue", error("ERR Unrecognized option 'lib-colour'")),
        ("CLIENT SETINFO lib-ver", error("ERR wrong number of arguments for 'client|setinfo' command")),
        ("CLIENT GETNAME", Answer::Null),
        ("CLIENT SETNAME me", ok()),
        ("client getname", bulk("me")),
        ("CLIENT SETNAME", error("ERR wrong number of arguments for 'client|setname' command")),
        ("CLIENT NO-EVICT on", ok()),
        ("CLIENT NO-EVICT maybe", error("ERR syntax error")),
        ("CLIENT", error("ERR wrong number of arguments for 'client' command")),
        ("CLIENT KILL 1", error("ERR unknown subcommand 'KILL'. Try CLIENT HELP.")),
        ("RESET", simple("RESET")),
        ("CLIENT GETNAME", Answer::Null),
        ("COMMAND COUNT", Answer::Integer(12)),
        ("COMMAND COUNT x", error("ERR wrong number of arguments for 'command|count' command")),
        ("COMMAND LIST x", error("ERR syntax error")),
        ("COMMAND NONSENSE", error("ERR unknown subcommand 'NONSENSE'. Try COMMAND HELP.")),
        ("GET a", error("ERR unknown command 'GET', with args beginning with: 'a' ")),
        ("FOO", error("ERR unknown command 'FOO', with args beginning with: ")),
    ] {
        assert_eq!(client.call(command), expected, "{command}");
    }
}

#[test]
fn a_name_with_spaces_is_refused() {
    let service = Running::start();
    let mut client = RespClient::open(service.resp);
    let expected = error("ERR Client names cannot contain spaces, newlines or special characters.");
    assert_eq!(client.call_with(&["CLIENT", "SETNAME", "a b"]), expected);
    assert_eq!(client.call_with(&["HELLO", "2", "SETNAME", "a\nb"]), expected);
}

#[test]
fn what_an_error_quotes_is_short_and_stays_on_its_line() {
    let service = Running::start();
    let mut client = RespClient::open(service.resp);
    let long = "x".repeat(1000);
    let Answer::Error(text) = client.call_with(&["A\r\n+OK", &long, &long]) else { panic!("no error") };
    assert_eq!(text, format!("ERR unknown command 'A  +OK', with args beginning with: '{}' ", "x".repeat(128)));
    assert_eq!(client.call("PING"), simple("PONG"));
}

/// The members of a map, however the protocol writes one.
fn members(answer: Answer) -> Vec<(Answer, Answer)> {
    match answer {
        Answer::Map(members) => members,
        Answer::List(parts) => parts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        other => panic!("{other:?} is no map"),
    }
}

#[test]
fn hello_chooses_the_protocol() {
    let service = Running::start();
    let mut client = RespClient::open(service.resp);
    let Answer::Integer(id) = client.call("CLIENT ID") else { panic!("no number") };
    for (command, version, is_map) in [
        ("HELLO", 2, false),
        ("HELLO 3", 3, true),
        ("HELLO", 3, true),
        ("HELLO 2 AUTH default x SETNAME me", 2, false),
        ("hello 3 setname other auth default x", 3, true),
    ] {
        let answer = client.call(command);
        assert_eq!(matches!(answer, Answer::Map(_)), is_map, "{command}");
        let expected = [
            (bulk("server"), bulk("redis")),
            (bulk("version"), bulk("7.0.0")),
            (bulk("proto"), Answer::Integer(version)),
            (bulk("id"), Answer::Integer(id)),
            (bulk("mode"), bulk("standalone")),
            (bulk("role"), bulk("master")),
            (bulk("modules"), Answer::List(vec![])),
        ];
        assert_eq!(members(answer), expected, "{command}");
    }
    assert_eq!(client.call("CLIENT GETNAME"), bulk("other"));
}

#[test]
fn a_hello_that_cannot_be_met_changes_nothing() {
    let service = Running::start();
    let mut client = RespClient::open(service.resp);
    for (command, expected) in [
        ("HELLO 4", "NOPROTO unsupported protocol version"),
        ("HELLO 1", "NOPROTO unsupported protocol version"),
        ("HELLO x", "ERR Protocol version is not an integer or out of range"),
        ("HELLO 3 SETNAME", "ERR Syntax error in HELLO option 'SETNAME'"),
        ("HELLO 3 AUTH default", "ERR Syntax error in HELLO option 'AUTH'"),
        ("HELLO 3 SETNAME me COLOUR blue", "ERR Syntax error in HELLO option 'COLOUR'"),
        ("HELLO 3 AUTH me x", "WRONGPASS invalid username-password pair or user is disabled."),
    ] {
        assert_eq!(client.call(command), error(expected), "{command}");
    }
    assert!(matches!(client.call("HELLO"), Answer::List(_)));
    assert_eq!(client.call("CLIENT GETNAME"), Answer::Null);
}

#[test]
fn info_tells_what_clients_look_for() {
    let service = Running::start();
    let mut client = RespClient::open(service.resp);
    let Answer::Bulk(text) = client.call("INFO") else { panic!("no text") };
    let text = String::from_utf8(text).unwrap();
    for line in ["redis_version:7.0.0", "loading:0", "role:master", "redis_mode:standalone"] {
        assert!(text.lines().any(|other| other == line), "no line {line} in\n{text}");
    }
    assert_eq!(client.call("INFO persistence"), bulk("# Persistence\r\nloading:0\r\n"));
    assert_eq!(client.call("INFO nothing"), bulk(""));
    client.call("HELLO 3");
    assert_eq!(client.call("INFO everything"), Answer::Text(text));
}

#[test]
fn commands_are_described() {
    let service = Running::start();
    let mut client = RespClient::open(service.resp);
    let Answer::List(all) = client.call("COMMAND") else { panic!("no list") };
    assert_eq!(all.len(), 12);
    let Answer::List(asked) = client.call("COMMAND INFO cl.throttle nonsense") else { panic!("no list") };
    assert_eq!(asked, [all[0].clone(), Answer::Null]);
    let Answer::List(parts) = &asked[0] else { panic!("no list") };
    assert_eq!(parts[..2], [bulk("cl.throttle"), Answer::Integer(-5)]);
    let documents = members(client.call("COMMAND DOCS cl.throttle CL.THROTTLE nonsense"));
    assert_eq!(documents.len(), 1);
    assert_eq!(members(client.call("COMMAND DOCS")).len(), 12);
    client.call("HELLO 3");
    assert_eq!(members(client.call("COMMAND DOCS")).len(), 12);
}

#[test]
fn a_connection_sees_only_itself() {
    let service = Running::start();
    let mut other = RespClient::open(service.resp);
    other.call("CLIENT SETNAME secret");
    let mut client = RespClient::open(service.resp);
    for command in ["CLIENT LIST", "CLIENT INFO"] {
        let Answer::Bulk(text) = client.call(command) else { panic!("no text") };
        let text = String::from_utf8(text).unwrap();
        assert!(text.lines().count() == 1 && !text.contains("secret"), "{text}");
    }
}

#[test]
fn quit_is_answered_before_it_hangs_up() {
    let service = Running::start();
    let mut client = RespClient::open(service.resp);
    client.send(b"PING\r\nQUIT\r\nPING\r\n");
    assert_eq!(client.rest(), "+PONG\r\n+OK\r\n");
}

#[test]
fn a_person_can_type() {
    let service = Running::start();
    let mut client = RespClient::open(service.resp);
    client.send(b"\r\n\n   \r\nCL.THROTTLE \"a key\" 15 30 60\n*0\r\n*-1\r\nECHO 'two words'\r\n");
    assert_eq!(client.answer(), crate::resp_client::integers(&[0, 16, 15, -1, 2]));
    assert_eq!(client.answer(), bulk("two words"));
}
