use crate::program::{command, port, stdout_of};
use crate::test_service::TestService;

#[test]
#[ignore = "needs redis-cli"]
fn redis_cli_prints_the_reply_to_each_command() {
    let service = TestService::start();
    for (arguments, expected) in [
        (&["CL.THROTTLE", "k", "15", "30", "60"][..], "0\n16\n15\n-1\n2\n"),
        (&["-3", "CL.THROTTLE", "k", "15", "30", "60"], "0\n16\n14\n-1\n4\n"),
        (&["-n", "0", "--user", "default", "--pass", "x", "PING"], "PONG\n"),
        (&["TOLL.CHECK", "ip", "203.0.113.9"], "1\nper-ip\n60\n59\n-1\n1000\n"),
        (&["-3", "TOLL.CHECK", "user", "1"], "1\n\n\n\n-1\n\n"),
        (&["CL.THROTTLE", "k"], "ERR wrong number of arguments for 'cl.throttle' command\n\n"),
        (&["--no-raw", "-r", "2", "CL.THROTTLE", "r", "0", "1", "60"], REPEATED),
    ] {
        let mut client = command("redis-cli");
        assert_eq!(stdout_of(client.args(["-p", &port(service.resp)]).args(arguments)), expected, "{arguments:?}");
    }
}

const REPEATED: &str = "1) (integer) 0\n2) (integer) 1\n3) (integer) 0\n4) (integer) -1\n5) (integer) 60
1) (integer) 1\n2) (integer) 1\n3) (integer) 0\n4) (integer) 60\n5) (integer) 60\n";
