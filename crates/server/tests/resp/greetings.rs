//! Commands that clients send on connecting, with the replies of Redis.

use crate::resp_client::{Reply, RespClient, bulk, error, ok};
use crate::test_service::TestService;

fn simple(word: &str) -> Reply {
    Reply::Simple(word.to_owned())
}

/// Error replies refer to these subcommands.
#[test]
fn help_subcommands_return_help() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    for (command, subcommands) in [
        ("CLIENT", &["GETNAME", "HELP", "ID", "INFO", "LIST", "NO-EVICT", "SETINFO", "SETNAME"][..]),
        ("COMMAND", &["(none)", "COUNT", "DOCS", "HELP", "INFO", "LIST"]),
    ] {
        let Reply::List(lines) = client.call(&format!("{command} help")) else { panic!("no list") };
        let help: Vec<String> = lines.iter().skip(1).map(|line| format!("{line:?}")).collect();
        for (line, subcommand) in help.iter().zip(subcommands) {
            assert!(line.contains(&format!("\"{subcommand}")), "{line}");
        }
        assert_eq!(help.len(), subcommands.len());
        let expected = error(&format!("ERR wrong number of arguments for '{}|help' command", command.to_lowercase()));
        assert_eq!(client.call(&format!("{command} HELP me")), expected);
    }
}

#[test]
fn connection_commands_reply_as_redis_does() {
    let service = TestService::start();
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
        ("AUTH other anything", error("WRONGPASS invalid username-password pair or user is disabled.")),
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
        ("CLIENT GETNAME", Reply::Null),
        ("CLIENT SETNAME me", ok()),
        ("client getname", bulk("me")),
        ("CLIENT SETNAME", error("ERR wrong number of arguments for 'client|setname' command")),
        ("CLIENT NO-EVICT on", ok()),
        ("CLIENT NO-EVICT maybe", error("ERR syntax error")),
        ("CLIENT", error("ERR wrong number of arguments for 'client' command")),
        ("CLIENT KILL 1", error("ERR unknown subcommand 'KILL'. Try CLIENT HELP.")),
        ("RESET", simple("RESET")),
        ("CLIENT GETNAME", Reply::Null),
        ("COMMAND COUNT", Reply::Integer(12)),
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
fn client_names_with_spaces_are_refused() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    let expected = error("ERR Client names cannot contain spaces, newlines or special characters.");
    assert_eq!(client.call_with(&["CLIENT", "SETNAME", "a b"]), expected);
    assert_eq!(client.call_with(&["HELLO", "2", "SETNAME", "a\nb"]), expected);
}

#[test]
fn quoted_input_in_errors_is_short_and_single_line() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    let long = "x".repeat(1000);
    let Reply::Error(text) = client.call_with(&["A\r\n+OK", &long, &long]) else { panic!("no error") };
    assert_eq!(text, format!("ERR unknown command 'A  +OK', with args beginning with: '{}' ", "x".repeat(128)));
    assert_eq!(client.call("PING"), simple("PONG"));
}

/// The members of a map, in RESP2 or RESP3.
fn members(reply: Reply) -> Vec<(Reply, Reply)> {
    match reply {
        Reply::Map(members) => members,
        Reply::List(parts) => parts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        other => panic!("{other:?} is not a map"),
    }
}

#[test]
fn hello_selects_the_protocol() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    let Reply::Integer(id) = client.call("CLIENT ID") else { panic!("no number") };
    for (command, version, is_map) in [
        ("HELLO", 2, false),
        ("HELLO 3", 3, true),
        ("HELLO", 3, true),
        ("HELLO 2 AUTH default x SETNAME me", 2, false),
        ("hello 3 setname other auth default x", 3, true),
    ] {
        let reply = client.call(command);
        assert_eq!(matches!(reply, Reply::Map(_)), is_map, "{command}");
        let expected = [
            (bulk("server"), bulk("redis")),
            (bulk("version"), bulk("7.0.0")),
            (bulk("proto"), Reply::Integer(version)),
            (bulk("id"), Reply::Integer(id)),
            (bulk("mode"), bulk("standalone")),
            (bulk("role"), bulk("master")),
            (bulk("modules"), Reply::List(vec![])),
        ];
        assert_eq!(members(reply), expected, "{command}");
    }
    assert_eq!(client.call("CLIENT GETNAME"), bulk("other"));
}

#[test]
fn invalid_hello_changes_nothing() {
    let service = TestService::start();
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
    assert!(matches!(client.call("HELLO"), Reply::List(_)));
    assert_eq!(client.call("CLIENT GETNAME"), Reply::Null);
}

#[test]
fn info_has_the_fields_that_clients_read() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    let Reply::Bulk(text) = client.call("INFO") else { panic!("no text") };
    let text = String::from_utf8(text).unwrap();
    for line in ["redis_version:7.0.0", "loading:0", "role:master", "redis_mode:standalone"] {
        assert!(text.lines().any(|other| other == line), "no line {line} in\n{text}");
    }
    assert_eq!(client.call("INFO persistence"), bulk("# Persistence\r\nloading:0\r\n"));
    assert_eq!(client.call("INFO nothing"), bulk(""));
    client.call("HELLO 3");
    assert_eq!(client.call("INFO everything"), Reply::Text(text));
}

#[test]
fn commands_are_described() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    let Reply::List(all) = client.call("COMMAND") else { panic!("no list") };
    assert_eq!(all.len(), 12);
    let Reply::List(described) = client.call("COMMAND INFO cl.throttle nonsense") else { panic!("no list") };
    assert_eq!(described, [all[0].clone(), Reply::Null]);
    let Reply::List(parts) = &described[0] else { panic!("no list") };
    assert_eq!(parts[..2], [bulk("cl.throttle"), Reply::Integer(-5)]);
    let documents = members(client.call("COMMAND DOCS cl.throttle CL.THROTTLE nonsense"));
    assert_eq!(documents.len(), 1);
    assert_eq!(members(client.call("COMMAND DOCS")).len(), 12);
    client.call("HELLO 3");
    assert_eq!(members(client.call("COMMAND DOCS")).len(), 12);
}

#[test]
fn client_list_has_only_the_calling_connection() {
    let service = TestService::start();
    let mut other = RespClient::open(service.resp);
    other.call("CLIENT SETNAME secret");
    let mut client = RespClient::open(service.resp);
    for command in ["CLIENT LIST", "CLIENT INFO"] {
        let Reply::Bulk(text) = client.call(command) else { panic!("no text") };
        let text = String::from_utf8(text).unwrap();
        assert!(text.lines().count() == 1 && !text.contains("secret"), "{text}");
    }
}

#[test]
fn quit_gets_a_reply_before_the_connection_closes() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    client.send(b"PING\r\nQUIT\r\nPING\r\n");
    assert_eq!(client.read_to_end(), "+PONG\r\n+OK\r\n");
}

#[test]
fn inline_commands_are_accepted() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    client.send(b"\r\n\n   \r\nCL.THROTTLE \"a key\" 15 30 60\n*0\r\n*-1\r\nECHO 'two words'\r\n");
    assert_eq!(client.reply(), crate::resp_client::integers(&[0, 16, 15, -1, 2]));
    assert_eq!(client.reply(), bulk("two words"));
}
