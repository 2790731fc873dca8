//! Authentication on the admin listener.

use std::os::unix::fs::PermissionsExt;

use crate::client::Connection;
use crate::reload::Directory;
use crate::running::{Running, output, tollgate};

const OLD: &str = "a-token-of-an-operator";
const NEW: &str = "another-token-of-an-operator";

fn write(directory: &Directory, token: &str, mode: u32) -> String {
    let file = directory.write("token", token);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    file
}

/// The status of a response to a request with a token.
fn status(tollgate: &Running, token: &str) -> u16 {
    let mut connection = Connection::open(tollgate.admin);
    let head = format!("GET /api/rules HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    connection.send(&head);
    connection.response().status
}

#[test]
fn changed_admin_token_is_reloaded() {
    let directory = Directory::new("token");
    let file = write(&directory, OLD, 0o600);
    let mut tollgate = Running::serve_with(&["--grpc", "off", "--resp", "off", "--admin-token-file", &file]);
    assert_eq!((status(&tollgate, OLD), status(&tollgate, NEW)), (200, 401));
    let said = tollgate.any_line_of("refused_call");
    assert!(
        said.contains(" listener=admin why=wrong_token method=GET from=127.0.0.1") && !said.contains(NEW),
        "{said}"
    );
    write(&directory, NEW, 0o600);
    assert_eq!(tollgate.line(), "tollgate: the admin token was reloaded: only the new token is accepted from now on");
    assert_eq!((status(&tollgate, OLD), status(&tollgate, NEW)), (401, 200));
    tollgate.any_line_of("refused_call");
    write(&directory, "short", 0o600);
    let said = tollgate.line();
    let expected =
        format!("tollgate: error: the admin token was not reloaded, the previous one stays in use: {file}: ");
    assert!(said.starts_with(&expected) && !said.contains("short "), "{said}");
    assert_eq!(status(&tollgate, NEW), 200);
}

#[test]
fn exposed_listener_and_readable_token_file_log_warnings() {
    let directory = Directory::new("exposed");
    let file = write(&directory, OLD, 0o644);
    let mut command = tollgate(&["serve", "--http", "off", "--grpc", "off", "--resp", ":0", "--admin", "0.0.0.0:0"]);
    command.args(["--admin-token-file", &file]).env_remove("NOTIFY_SOCKET");
    let said = Running::lines_until(command, "rule");
    let warnings: Vec<&String> = said.iter().filter(|line| line.starts_with("tollgate: warning: ")).collect();
    assert_eq!(warnings.len(), 2, "{said:?}");
    assert!(warnings[0].contains("the admin listener is reachable from other machines without TLS"), "{said:?}");
    assert!(warnings[1].contains(&format!("can read the admin token in {file}: run `chmod 600 {file}`")), "{said:?}");
}

#[test]
fn empty_token_variable_fails_at_startup() {
    let mut command = tollgate(&["serve", "--http", ":0", "--admin", ":0", "--grpc", "off", "--resp", "off"]);
    let failed = command.env("TOLLGATE_ADMIN_TOKEN", "").output().unwrap();
    assert_eq!(failed.status.code(), Some(3));
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(said.starts_with("error: TOLLGATE_ADMIN_TOKEN is set but empty; an empty token does not turn"), "{said}");
    assert!(said.contains("\nhint: `unset TOLLGATE_ADMIN_TOKEN` to run without a token"), "{said}");
    let absent = output(&["serve", "--admin-token-file", "/nowhere/token", "--http", ":0", "--admin", ":0"]);
    assert_eq!(absent.status.code(), Some(3));
}
