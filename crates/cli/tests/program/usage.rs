use crate::running::output;

/// The exit code, what it answered and what it said.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = output(arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn help_and_version_are_answers() {
    for (arguments, shown) in [
        (&["--help"][..], "Usage: tollgate"),
        (&["serve", "--help"], "--http <ADDRESS>"),
        (&["init", "--help"], "--force"),
        (&["validate", "--help"], "most_in_second"),
        (&["explain", "--help"], "decided_by"),
        (&["limits", "--help"], "GET /v1/limits"),
        (&["schema", "--help"], "for editors"),
        (&["message", "bad-rate"], "### bad-rate\n\nThe text is not a rate."),
        (&["--version"], "tollgate 0"),
    ] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert!(stdout.contains(shown), "{stdout}");
    }
}

#[test]
fn wrong_usage_is_told_on_stderr() {
    for (arguments, shown) in [
        (&[][..], "Usage: tollgate"),
        (&["sevre"], "unrecognized subcommand 'sevre'"),
        (&["serve", "--htp", ":0"], "unexpected argument '--htp'"),
        (&["serve", "--threads", "0"], "invalid value '0' for '--threads <NUMBER>': 0 is not in 1..=1024"),
        (&["serve", "--threads", "100000"], "100000 is not in 1..=1024"),
        (&["serve", "--max-connections", "0"], "0 is not in 1..=10000000"),
        (&["serve", "--max-connections-per-address", "0"], "0 is not in 1..=10000000"),
        (&["serve", "--idle-timeout", "0"], "0 is not in 1..=86400"),
        (&["serve", "--tls-cert", "c.pem"], "--tls-key <FILE>"),
        (&["serve", "--http"], "a value is required for '--http <ADDRESS>'"),
        (&["serve", "--http", "nowhere"], "expected an address such as 127.0.0.1:8080"),
        (&["serve", "--http", "off", "--grpc", "off", "--resp", "off", "--admin", "off"], "nothing would be served"),
        (&["serve", "--http", "off", "--admin", "0.0.0.0:0"], "it must be a loopback address"),
        (&["validate"], "<FILE>"),
        (&["validate", "x.yaml", "--format", "yaml"], "[possible values: text, json]"),
        (&["validate", "x.yaml", "--strickt"], "a similar argument exists: '--strict'"),
        (&["limits", "x.yaml", "--format", "text"], "[possible values: markdown, json]"),
        (&["schema", "x.yaml"], "unexpected argument 'x.yaml'"),
        (&["init", "a.yaml", "b.yaml"], "unexpected argument 'b.yaml'"),
        (&["explain", "x.yaml", "--ip", "localhost"], "expected an IPv4 or IPv6 address without port or brackets"),
        (&["explain", "x.yaml", "--ip", "203.0.113.9:80"], "such as 203.0.113.9"),
        (
            &["explain", "x.yaml", "--header", "X-Tier pro"],
            "expected a name, a colon and a value such as 'X-Tier: pro'",
        ),
        (&["explain", "x.yaml", "--identity", "user"], "expected a name and a value such as user=42"),
        (&["explain", "x.yaml", "--path", "login"], "expected a path that begins with /"),
        (&["explain", "x.yaml", "--method", "GET /"], "expected a method such as GET or POST"),
        (&["explain", "x.yaml", "--cost", "-1"], "expected a whole number from 0 to 18446744073709551615"),
        (&["explain", "x.yaml", "--cost", "many"], "invalid value 'many' for '--cost <COST>': expected a whole number"),
        (&["message", "none"], "there is no message \"none\"\nhint: there are no-rules, "),
    ] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(stderr.contains(shown), "{stderr}");
    }
}
