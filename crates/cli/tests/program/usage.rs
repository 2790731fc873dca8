use crate::running::output;

/// The exit code, stdout and stderr.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = output(arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn help_and_version_are_printed_on_stdout() {
    for (arguments, shown) in [
        (&["--help"][..], "Usage: tollgate"),
        (&["serve", "--help"], "--http <ADDRESS>"),
        (&["init", "--help"], "--force"),
        (&["validate", "--help"], "most_in_second"),
        (&["explain", "--help"], "decided_by"),
        (&["limits", "--help"], "GET /v1/limits"),
        (&["schema", "--help"], "for editors"),
        (&["serve", "--help"], "[default: 127.0.0.1:9099]"),
        (&["message", "bad-rate"], "### bad-rate\n\nThe text is not a rate."),
        (&["message", "BAD_RATE"], "### bad-rate\n\nThe text is not a rate."),
        (&["message", "--list"], "\nbad-rate                error          The text is not a rate\n"),
        (&["message", "--list"], "\nmissing-secret          error, note    The environment variable "),
        (&["message", "--list"], "\nonly-shadow             warning        every rule has `shadow: true`\n"),
        (&["message", "--list"], "\nno-rules                warning  "),
        (&["--version"], "tollgate 0"),
    ] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert!(stdout.contains(shown) && stdout.ends_with('\n'), "{stdout}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_an_error_on_stderr() {
    for (arguments, shown) in [
        (&[][..], "Usage: tollgate"),
        (&["sevre"], "unrecognized subcommand 'sevre'\n\n  tip: a similar subcommand exists: 'serve'\n"),
        (&["serve", "--htp", ":0"], "unexpected argument '--htp'"),
        (&["serve", "--port", "8080"], "tip: the HTTP listener is set by '--http ADDRESS'"),
        (&["serve", "--listen=:8080"], "tip: the HTTP listener is set by '--http ADDRESS'"),
        (&["serve", "--config", "policy.yaml"], "tip: the policy file is an argument without a flag"),
        (
            &["serve", "--threads", "0"],
            "invalid value '0' for '--threads <NUMBER>': expected a whole number from 1 to 1024",
        ),
        (&["serve", "--threads", "x"], "invalid value 'x' for '--threads <NUMBER>': expected a whole number from 1 to"),
        (&["serve", "--threads", "100000"], "expected a whole number from 1 to 1024"),
        (&["serve", "--max-connections", "0"], "expected a whole number from 1 to 10000000"),
        (&["serve", "--max-connections-per-address", "0"], "expected a whole number from 1 to 10000000"),
        (&["serve", "--idle-timeout", "0"], "expected a duration from 1ms to 1day, such as 500ms, 75s or 2min"),
        (&["serve", "--idle-timeout", "5 apples"], "a number without a unit is seconds"),
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
        (&["message", "bad-rte"], "no message with the code \"bad-rte\"\nhint: did you mean `bad-rate`"),
        (&["message", "NAME"], "`bad-name` or `reserved-name` or `duplicate-name`? `tollgate message --list` lists"),
        (
            &["message"],
            "the code of a message is missing, as in `tollgate message bad-rate`\nhint: `tollgate message --list`",
        ),
    ] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(stderr.contains(shown), "{stderr}");
    }
}

#[test]
fn variable_sets_a_flag_and_the_flag_overrides_it() {
    let with = |arguments: &[&str]| {
        let mut command = crate::running::tollgate(arguments);
        command.env("TOLLGATE_HTTP", "nowhere").env("TOLLGATE_ADMIN_TOKEN_FILE", "/run/a-secret-path");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (code, text) = with(&["serve"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("invalid value 'nowhere' for '--http <ADDRESS>'"), "{text}");
    assert!(text.contains("tip: the value is from the environment variable TOLLGATE_HTTP"), "{text}");
    let (_, text) = with(&["serve", "--http=elsewhere"]);
    assert!(text.contains("'elsewhere'") && !text.contains("TOLLGATE_HTTP"), "{text}");
    let off = ["--http", "off", "--grpc", "off", "--resp", "off", "--admin", "off"];
    let (code, text) = with(&[&["serve"][..], &off].concat());
    assert_eq!(code, Some(2));
    assert!(text.contains("nothing would be served"), "{text}");
    let (code, text) = with(&["serve", "--help"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("[env: TOLLGATE_HTTP]") && !text.contains("a-secret-path"), "{text}");
}

#[test]
fn variables_set_flags_of_every_kind() {
    let with = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = crate::running::tollgate(arguments);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let warned = crate::outputs::policy("warned.yaml");
    for (value, code) in [("1", 1), ("true", 1), ("0", 0), ("", 0)] {
        let strict = with(&[("TOLLGATE_VALIDATE_STRICT", value)], &["validate", &warned]);
        assert_eq!(strict.0, Some(code), "{value}: {}", strict.1);
    }
    let shop = crate::outputs::policy("shop.yaml");
    let headers = [("TOLLGATE_REQUEST_HEADER", "X-User-ID: 42\nX-Tier: pro")];
    let (code, text) = with(&headers, &["explain", &shop]);
    assert_eq!(code, Some(0));
    assert!(text.contains("(tier pro)") && text.contains("42"), "{text}");
    let (code, text) = with(&[("TOLLGATE_IDLE_TIMEOUT", "5 apples")], &["serve"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("expected a duration from 1ms to 1day"), "{text}");
}

#[test]
fn idle_timeout_takes_units() {
    for duration in ["5s", "500ms", "2min", "75"] {
        let tollgate =
            crate::running::Running::serve_with(&["--grpc", "off", "--resp", "off", "--idle-timeout", duration]);
        drop(tollgate);
    }
}
