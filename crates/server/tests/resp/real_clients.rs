//! Clients that other people wrote.

use std::net::SocketAddr;
use std::process::{Command, Output};

use crate::running::Running;

/// Runs a client; `None`, with a word about it, where it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) => {
            skipped(&format!("{program} cannot be run: {error}"));
            None
        }
    }
}

#[allow(clippy::print_stderr, reason = "a test that was skipped must be seen to be")]
fn skipped(why: &str) {
    // Past the harness, which keeps what passing tests say to itself.
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

fn port(address: SocketAddr) -> String {
    address.port().to_string()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn redis_cli() {
    let service = Running::start();
    let port = port(service.resp);
    for (arguments, expected) in [
        (&["CL.THROTTLE", "k", "15", "30", "60"][..], "0\n16\n15\n-1\n2\n"),
        (&["-3", "CL.THROTTLE", "k", "15", "30", "60"], "0\n16\n14\n-1\n4\n"),
        (&["-n", "0", "--user", "default", "--pass", "x", "PING"], "PONG\n"),
        (&["TOLL.CHECK", "ip", "203.0.113.9"], "1\nper-ip\n60\n59\n-1\n1000\n"),
        (&["-3", "TOLL.CHECK", "user", "1"], "1\n\n\n\n-1\n\n"),
    ] {
        let all = [&["-p", &port][..], arguments].concat();
        let Some(output) = run("redis-cli", &all) else { return };
        assert_eq!(stdout(&output), expected, "{arguments:?}");
    }
}

#[test]
fn redis_benchmark() {
    let service = Running::start();
    let port = port(service.resp);
    let load = ["-p", &port, "-n", "2000", "-c", "10", "-P", "16", "--csv"];
    let Some(output) = run("redis-benchmark", &[&load[..], &["CL.THROTTLE", "k", "1000000", "1", "60"]].concat())
    else {
        return;
    };
    assert!(stdout(&output).contains("CL.THROTTLE k 1000000 1 60"), "{output:?}");
    let left =
        run("redis-cli", &["-p", &port, "CL.THROTTLE", "k", "1000000", "1", "60", "0"]).map(|left| stdout(&left));
    let left: u64 = left.unwrap().lines().nth(2).unwrap().parse().unwrap();
    // It may send a few more than it was asked for, to fill its last pipeline.
    assert!((998_001 - 160..=998_001).contains(&left), "{left}");
    let Some(pings) = run("redis-benchmark", &[&load[..], &["-t", "ping"]].concat()) else { return };
    assert!(stdout(&pings).contains("PING_MBULK"), "{pings:?}");
}

const REDIS_PY: &str = r#"
import sys
import redis

for protocol in (2, 3):
    client = redis.Redis(port=int(sys.argv[1]), protocol=protocol, client_name="test", db=0)
    assert client.ping()
    key = f"python-{protocol}"
    assert client.execute_command("CL.THROTTLE", key, 15, 30, 60) == [0, 16, 15, -1, 2]
    assert client.execute_command("TOLL.CHECK", "ip", f"203.0.113.{protocol}") == [1, b"per-ip", 60, 59, -1, 1000]
    assert client.execute_command("TOLL.CHECK", "colour", "blue") == [1, None, None, None, -1, None]
    assert client.client_getname() in (b"test", "test")
    assert client.info()["redis_version"] == "7.0.0"
    assert client.echo(b"\xff\r\n") == b"\xff\r\n"
    pipeline = client.pipeline(transaction=False)
    for _ in range(100):
        pipeline.execute_command("CL.THROTTLE", key, 15, 30, 60)
    answers = pipeline.execute()
    assert sum(answer[0] == 0 for answer in answers) == 15, answers
    try:
        client.get("a")
        raise SystemExit("a command that does not exist was answered")
    except redis.ResponseError as error:
        assert "unknown command" in str(error), error
print("redis-py", redis.__version__)
"#;

#[test]
fn redis_py() {
    const PYTHON: &str = "python3";
    let Some(imported) = run(PYTHON, &["-c", "import redis"]) else { return };
    if !imported.status.success() {
        return skipped("redis-py is not installed: pip install redis");
    }
    let service = Running::start();
    let output = run(PYTHON, &["-c", REDIS_PY, &port(service.resp)]).unwrap();
    assert!(stdout(&output).starts_with("redis-py "), "{output:?}");
}
