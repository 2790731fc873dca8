//! Who may use the admin listener, as the program is told.

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

/// The status of an answer to whoever brings a token.
fn ask(tollgate: &Running, token: &str) -> u16 {
    let mut connection = Connection::open(tollgate.admin);
    let head = format!("GET /api/rules HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    connection.send(&head);
    connection.response().status
}

#[test]
fn the_token_is_read_again_when_its_file_changes() {
    let directory = Directory::new("token");
    let file = write(&directory, OLD, 0o600);
    let mut tollgate = Running::serve_with(&["--grpc", "off", "--resp", "off", "--admin-token-file", &file]);
    assert_eq!((ask(&tollgate, OLD), ask(&tollgate, NEW)), (200, 401));
    let said = tollgate.any_line_of("refused_call");
    assert!(
        said.contains(" listener=admin why=wrong_token method=GET from=127.0.0.1") && !said.contains(NEW),
        "{said}"
    );
    write(&directory, NEW, 0o600);
    assert_eq!(
        tollgate.line(),
        "tollgate: the admin token was read again: from now on only what the file says is taken"
    );
    assert_eq!((ask(&tollgate, OLD), ask(&tollgate, NEW)), (401, 200));
    tollgate.any_line_of("refused_call");
    write(&directory, "short", 0o600);
    let said = tollgate.line();
    let expected =
        format!("tollgate: error: the admin token was not read again, and the old one still holds: {file}: ");
    assert!(said.starts_with(&expected) && !said.contains("short "), "{said}");
    assert_eq!(ask(&tollgate, NEW), 200);
}

#[test]
fn what_leaves_the_door_ajar_is_told() {
    let directory = Directory::new("ajar");
    let file = write(&directory, OLD, 0o644);
    let mut command = tollgate(&["serve", "--http", "off", "--grpc", "off", "--resp", ":0", "--admin", "0.0.0.0:0"]);
    command.args(["--admin-token-file", &file]).env_remove("NOTIFY_SOCKET");
    let said = Running::lines_until(command, "rule");
    let warnings: Vec<&String> = said.iter().filter(|line| line.starts_with("tollgate: warning: ")).collect();
    assert_eq!(warnings.len(), 2, "{said:?}");
    assert!(warnings[0].contains("the admin listener is open to other machines without TLS"), "{said:?}");
    assert!(warnings[1].contains(&format!("may read the admin token in {file}: `chmod 600 {file}`")), "{said:?}");
}

#[test]
fn an_empty_variable_does_not_open_the_door() {
    let mut command = tollgate(&["serve", "--http", ":0", "--admin", ":0", "--grpc", "off", "--resp", "off"]);
    let failed = command.env("TOLLGATE_ADMIN_TOKEN", "").output().unwrap();
    assert_eq!(failed.status.code(), Some(3));
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(said.starts_with("error: TOLLGATE_ADMIN_TOKEN is set and empty, which is not taken to mean"), "{said}");
    assert!(said.contains("\nhint: `unset TOLLGATE_ADMIN_TOKEN` to have none"), "{said}");
    let absent = output(&["serve", "--admin-token-file", "/nowhere/token", "--http", ":0", "--admin", ":0"]);
    assert_eq!(absent.status.code(), Some(3));
}
