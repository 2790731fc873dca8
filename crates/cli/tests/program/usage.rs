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
        (&["serve", "--http"], "a value is required for '--http <ADDRESS>'"),
        (&["serve", "--http", "nowhere"], "expected an address such as 127.0.0.1:8080"),
        (&["serve", "--http", "off", "--admin", "off"], "nothing would be served"),
        (&["serve", "--http", "off", "--admin", "0.0.0.0:0"], "it must be a loopback address"),
    ] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(stderr.contains(shown), "{stderr}");
    }
}

#[test]
fn a_policy_file_is_not_read_yet() {
    let (code, stdout, stderr) = run(&["serve", "policy.yaml"]);
    assert_eq!((code, stdout.as_str()), (Some(3), ""));
    let expected = "error: cannot serve policy.yaml: policy files are not read yet\n\
        hint: leave the file out to serve the built-in rule per-ip\n";
    assert_eq!(stderr, expected);
}
