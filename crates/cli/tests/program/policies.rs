//! The commands that read a policy, with valid, invalid and unreadable files.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::outputs::policy;
use crate::running::{output, tollgate};

/// A directory that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let directory = std::env::temp_dir().join(format!("tollgate-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Scratch(directory)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), content).unwrap();
        self.path(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The exit code, stdout and stderr.
fn read(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    read(output(arguments))
}

fn run_with_stdin(arguments: &[&str], stdin: &[u8]) -> (Option<i32>, String, String) {
    let mut command = tollgate(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin).unwrap();
    read(child.wait_with_output().unwrap())
}

#[test]
fn validate_and_serve_reject_logs_larger_than_the_store() {
    let scratch = Scratch::new("large-log");
    let rule = "{ name: daily, key: client_ip, limit: 100000/day, algorithm: sliding-window-log }";
    let policy =
        |entries: u64| format!("version: 1\nrules: [ {rule} ]\nstore: {{ memory: {{ entries: {entries} }} }}\n");
    let file = scratch.file("policy.yaml", policy(1_000));
    for command in [&["validate"][..], &["serve", "--http", ":0"]] {
        let (code, _, stderr) = run(&[command, &[file.as_str()]].concat());
        assert_eq!(code, Some(1), "{command:?}: {stderr}");
        let expected = "the log of one key may take 571583 bytes, and the store has 44521 bytes for one key \
                        [too-large-for-store]\n";
        assert!(stderr.contains(expected) && stderr.contains("entries: 571584"), "{command:?}: {stderr}");
    }
    let enough = scratch.file("enough.yaml", policy(571_584));
    assert_eq!(run(&["validate", &enough]).0, Some(0));
}

/// Every command that reads a policy file.
const READERS: [&[&str]; 4] =
    [&["validate"], &["explain", "--ip", "203.0.113.9"], &["limits"], &["serve", "--http", ":0"]];

const INVALID: &str = "version: 1
rules:
  - name: per-ip
    key: client_ip
    limit: 5/fortnight
  - name: per-ip
    key: usr
    limit: 5/min
";

#[test]
fn unreadable_file_exits_with_3() {
    let scratch = Scratch::new("unread");
    let binary = scratch.file("binary", [b"version: 1\n".as_slice(), &[0xff, 0xfe, 0x00]].concat());
    let missing = scratch.path("missing.yaml");
    let init = format!("hint: `tollgate init {missing}` writes a starter policy\n");
    for command in READERS {
        for (file, shown) in [
            (missing.as_str(), "error: the file cannot be read: No such file or directory"),
            (missing.as_str(), &init),
            (&scratch.0.display().to_string(), "error: this is a directory, not a policy file\nhint: "),
            (&binary, ":2: error: the file is not UTF-8 text from this line on\nhint: "),
        ] {
            let (code, stdout, stderr) = run(&[command, &[file]].concat());
            assert_eq!((code, stdout.as_str()), (Some(3), ""), "{command:?} {stderr}");
            assert!(stderr.contains(shown) && (shown == init || stderr.starts_with(file)), "{command:?} {stderr}");
        }
    }
}

#[test]
fn invalid_policy_exits_with_1_and_shows_its_lines() {
    let scratch = Scratch::new("wrong");
    let file = scratch.file("wrong.yaml", INVALID);
    for command in READERS {
        let (code, stdout, stderr) = run(&[command, &[file.as_str()]].concat());
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{command:?} {stderr}");
        assert!(stderr.starts_with(&format!("{file}:5:")), "{stderr}");
        assert!(stderr.contains("\n  5 |     limit: 5/fortnight\n    |            "), "{stderr}");
        assert!(!stderr.contains('\u{1b}'), "no colours without a terminal");
    }
}

#[test]
fn errors_are_members_of_the_json() {
    let scratch = Scratch::new("wrong-json");
    let file = scratch.file("wrong.yaml", INVALID);
    let (code, stdout, stderr) = run(&["validate", &file, "--format", "json"]);
    assert_eq!((code, stderr.as_str()), (Some(1), ""));
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&answer["valid"], &answer["rules"]), (&false.into(), &Value::Array(vec![])));
    assert_eq!(answer["omitted"], 0);
    let error = &answer["errors"][0];
    assert_eq!((&error["code"], &error["line"], &error["column"]), (&"bad-rate".into(), &5.into(), &14.into()));
    assert_eq!(error["source_line"], "    limit: 5/fortnight");
}

#[test]
fn warnings_are_errors_only_with_strict() {
    let scratch = Scratch::new("warned");
    let file = scratch.file("empty.yaml", "version: 1\nrules: []\n");
    let (code, stdout, stderr) = run(&["validate", &file]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    assert!(stderr.contains(": warning: "), "{stderr}");
    let end = format!(
        "tollgate: {file} is valid: 0 rules, 1 warning\ntollgate: `tollgate message CODE` explains a warning, for example `tollgate message no-rules`\n"
    );
    assert!(stderr.ends_with(&end), "{stderr}");
    let (code, _, stderr) = run(&["validate", "--strict", &file]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("error: 1 warning, and --strict treats warnings as errors\nhint: "), "{stderr}");
    let (code, stdout, _) = run(&["validate", "--strict", "--format", "json", &file]);
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &answer["valid"], &answer["warnings"][0]["code"]), (Some(1), &true.into(), &"no-rules".into()));
}

#[test]
fn starter_policy_passes_strict_validation() {
    let (_, starter, _) = run(&["init"]);
    let (code, _, stderr) = run_with_stdin(&["validate", "--strict", "-"], starter.as_bytes());
    assert_eq!((code, stderr.as_str()), (Some(0), "tollgate: stdin is valid: 1 rule, 0 warnings\n"));
}

/// The folder of the examples, from the root of the workspace.
fn example(file: &str) -> String {
    format!("{}/../../examples/{file}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn example_policy_with_concurrency_passes_strict_validation() {
    let file = example("axum-policy/policy.yaml");
    let (code, _, stderr) = run(&["validate", "--strict", &file]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains(": note: this rule does not apply over forward-auth"), "{stderr}");
    assert!(stderr.ends_with("is valid: 4 rules, 0 warnings\n"), "{stderr}");
}

#[test]
fn accepted_warnings_are_not_printed_and_pass_strict_validation() {
    let scratch = Scratch::new("accepted");
    let file = scratch.file("empty.yaml", "version: 1\naccept: no-rules\nrules: []\n");
    let (code, _, stderr) = run(&["validate", "--strict", &file]);
    assert_eq!((code, stderr), (Some(0), format!("tollgate: {file} is valid: 0 rules, 0 warnings, 1 accepted\n")));
    let (code, stdout, _) = run(&["validate", "--strict", "--format", "json", &file]);
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &answer["warnings"]), (Some(0), &Value::Array(vec![])));
    assert_eq!((&answer["accepted"][0]["code"], &answer["accepted"][0]["line"]), (&"no-rules".into(), &3.into()));

    let unused = scratch.file("unused.yaml", "version: 1\naccept: no-rules\nrules: [{ name: a, limit: 5/s }]\n");
    let (code, _, stderr) = run(&["validate", "--strict", &unused]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("`no-rules` is accepted, but does not occur in this policy"), "{stderr}");
    let unknown = scratch.file("unknown.yaml", "version: 1\naccept: no-rule\nrules: []\n");
    let (code, _, stderr) = run(&["validate", &unknown]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("hint: did you mean `no-rules`?"), "{stderr}");
}

#[test]
fn strict_validation_fails_if_a_rule_can_be_avoided() {
    let policy = |login: &str| {
        format!(
            "version: 1\nidentity: {{ user: {{ header: X-User, trusted: true }} }}\nrules:\n  \
             - {{ name: per-user, key: user, limit: 5/min }}\n  \
             - {{ name: per-ip, {login}key: client_ip, limit: 5/min }}\n"
        )
    };
    let validate = |text: &str| run_with_stdin(&["validate", "--strict", "-"], text.as_bytes());
    let (code, _, stderr) = validate(&policy("when: { path: /login }, "));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("stdin:4:28: warning: a request without `user` avoids this rule"), "{stderr}");
    assert_eq!(validate(&policy("")).0, Some(0));
}

#[test]
fn dash_reads_stdin() {
    let shop = std::fs::read(policy("shop.yaml")).unwrap();
    for command in [&["validate"][..], &["explain", "--ip", "203.0.113.9"], &["limits"]] {
        let (code, from_stdin, _) = run_with_stdin(&[command, &["-"]].concat(), &shop);
        let (_, from_file, _) = run(&[command, &[policy("shop.yaml").as_str()]].concat());
        assert_eq!(code, Some(0));
        assert_eq!(from_stdin, from_file, "{command:?}");
    }
    let (code, _, stderr) = run_with_stdin(&["validate", "-"], INVALID.as_bytes());
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("stdin:5:14: error: "), "{stderr}");
    let (code, _, stderr) = run_with_stdin(&["validate", "-"], b"version: 1\n\xff");
    assert_eq!(code, Some(3));
    assert!(stderr.starts_with("stdin:2: error: the file is not UTF-8 text"), "{stderr}");
}

#[test]
fn init_does_not_replace_a_file_without_force() {
    let scratch = Scratch::new("init");
    let file = scratch.path("policy.yaml");
    let (code, stdout, stderr) = run(&["init", &file]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    assert_eq!(stderr, format!("tollgate: wrote {file}; `tollgate validate {file}` prints what it guarantees\n"));
    let (code, shown, _) = run(&["init"]);
    assert_eq!((code, &shown), (Some(0), &std::fs::read_to_string(&file).unwrap()));
    assert_eq!(run(&["init", "-"]).1, shown);

    std::fs::write(&file, "mine").unwrap();
    let (code, _, stderr) = run(&["init", &file]);
    assert_eq!(code, Some(3));
    assert_eq!(
        stderr,
        format!("error: {file} exists already\nhint: choose another name, or replace the file with --force\n")
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(run(&["init", "--force", &file]).0, Some(0));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), shown);
}

#[test]
fn init_exits_with_3_if_the_file_cannot_be_written() {
    let scratch = Scratch::new("unwritten");
    let directory = scratch.0.display().to_string();
    for file in [scratch.path("no/such/directory.yaml"), directory.clone()] {
        let (code, _, stderr) = run(&["init", "--force", &file]);
        assert_eq!(code, Some(3));
        assert!(stderr.starts_with(&format!("error: cannot write {file}: ")), "{stderr}");
    }
}

#[test]
fn schema_prints_json() {
    let (code, stdout, stderr) = run(&["schema"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let schema: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(schema["title"], "tollgate policy");
    assert!(stdout.ends_with("}\n"));
}

#[test]
fn explain_reports_undeclared_identities() {
    let (code, stdout, stderr) = run(&["explain", &policy("shop.yaml"), "--identity", "usr=42"]);
    assert_eq!(code, Some(0));
    assert_eq!(stderr, "tollgate: the policy has no identity `usr`: its value has no effect\n");
    assert!(stdout.contains("per-user does not apply\n  because  identity `user` is absent\n"), "{stdout}");
    assert!(stdout.contains("address  unknown\n"), "{stdout}");
}

#[test]
fn closed_stdout_is_not_a_failure() {
    let mut command = tollgate(&["schema"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let (code, _, stderr) = read(child.wait_with_output().unwrap());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}

#[test]
fn store_without_nodes_is_one_error() {
    let scratch = Scratch::new("nodes");
    let file = scratch.file("nodes.yaml", "version: 1\nstore: { redis: { nodes: [] } }\nrules: []\n");
    let (code, _, stderr) = run(&["validate", &file]);
    assert_eq!(code, Some(1));
    assert_eq!(stderr.matches(": error: ").count(), 1, "{stderr}");
    assert!(stderr.contains(":2:26: error: expected at least one item, found none"), "{stderr}");
}

#[test]
fn validate_against_lists_counters_that_start_from_zero() {
    let scratch = Scratch::new("against");
    let policy = |rule: &str| format!("version: 1\nrules:\n  - {{ name: api, {rule} }}\n");
    let old = scratch.file("old.yaml", policy("key: client_ip, limit: 10/h"));
    for (rule, expected) in [
        ("key: client_ip, limit: 7/min, algorithm: fixed-window", "all counters continue\n"),
        (
            "key: client_ip, limit: [10/h, 100/day]",
            "all counters continue except these\n  rule `api`: the limit counted as `api/1day` is new and starts with no counts\n",
        ),
        (
            "limit: 10/h",
            "all counters continue except these\n  rule `api` starts with no counts: it has no key and had key client_ip\n",
        ),
    ] {
        let new = scratch.file("new.yaml", policy(rule));
        let (code, stdout, stderr) = run(&["validate", &new, "--against", &old]);
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stdout.ends_with(&format!("\nreplacing {old}, {expected}")), "{stdout}");
        let (_, json, _) = run(&["validate", &new, "--against", &old, "--format", "json"]);
        let changes = serde_json::from_str::<Value>(&json).unwrap()["counter_changes"].as_array().unwrap().len();
        assert_eq!(changes, expected.lines().count() - 1, "{json}");
    }
    let (code, _, stderr) = run(&["validate", &old, "--against", &scratch.path("none.yaml")]);
    assert_eq!(code, Some(3), "{stderr}");
}

#[test]
fn path_patterns_of_other_routers_are_rejected_with_a_hint() {
    let policy = |path: &str| {
        format!("version: 1\nrules:\n  - {{ name: r, when: {{ path: '{path}' }}, key: client_ip, limit: 5/min }}\n")
    };
    for (path, hint) in [
        ("^/users/\\d+$", "`{name}` for any one segment"),
        ("/users/[0-9]+", "`{name}` for any one segment"),
        ("/(login|register)", "several paths as a list"),
        ("/files/{*rest}", "write `/*` at the end"),
        ("/users/user-{id}", "a parameter as a whole segment"),
    ] {
        let (code, _, stderr) = run_with_stdin(&["validate", "-"], policy(path).as_bytes());
        assert_eq!(code, Some(1), "{path}: {stderr}");
        assert!(stderr.contains("error: the path") && stderr.contains(hint), "{path}: {stderr}");
    }
}

#[test]
fn path_parameters_match_one_segment() {
    let text = "version: 1\nrules:\n  - { name: everybody, limit: 100/min }\n  \
        - { name: user, when: { method: GET, path: ['/users/{id}', /people/:id] }, key: client_ip, limit: 5/min }\n";
    let scratch = Scratch::new("parameters");
    let file = scratch.file("policy.yaml", text);
    let (code, stdout, stderr) = run(&["validate", "--strict", &file]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("\n  when method GET or HEAD; path /users/{id} or /people/:id\n"), "{stdout}");
    for (path, applies) in [("/users/7", true), ("/people/7", true), ("/users", false), ("/users/7/orders", false)] {
        let (_, stdout, _) = run(&["explain", &file, "--ip", "203.0.113.9", "--method", "GET", "--path", path]);
        assert_eq!(stdout.contains("user applies"), applies, "{path}: {stdout}");
    }
}

/// All files below a folder of the repository whose names end in `.yaml` and that are policies.
fn policies_in(folder: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        if path.is_dir() {
            policies_in(&name, found);
        } else if name.ends_with(".yaml") && std::fs::read_to_string(&path).unwrap().contains("\nversion: 1\n") {
            found.push(name);
        }
    }
}

#[test]
fn every_policy_of_the_repository_passes_strict_validation() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut files = Vec::new();
    for folder in ["examples", "deploy"] {
        policies_in(&format!("{root}/{folder}"), &mut files);
    }
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let (code, _, stderr) = run(&["validate", "--strict", &file]);
        assert_eq!(code, Some(0), "{stderr}");
    }
}

#[test]
fn validate_needs_no_secrets_and_serve_does() {
    let scratch = Scratch::new("no-secrets");
    let policy = |jwt: &str| {
        format!(
            "version: 1\njwt: {jwt}\nsecrets: {{ key_file: absent.key }}\n\
             identity: {{ user: {{ jwt: sub, on_invalid: absent }} }}\nrules:\n  \
             - {{ name: per-user, key: user, limit: 5/s }}\n  - {{ name: per-ip, key: client_ip, limit: 5/s }}\n"
        )
    };
    for jwt in [
        "{ algorithm: HS256, key_env: TOLLGATE_NO_SUCH_VARIABLE }",
        "{ algorithm: RS256, key_env: TOLLGATE_NO_SUCH_VARIABLE }",
        "{ algorithm: ES256, key_file: absent.pem }",
        "{ jwks_file: absent.json }",
        "{ keys: [{ kid: a, algorithm: RS256, key_file: absent.pem }] }",
    ] {
        let file = scratch.file("policy.yaml", policy(jwt));
        let (code, _, stderr) = run(&["validate", "--strict", &file]);
        assert_eq!(code, Some(0), "{jwt}: {stderr}");
        assert_eq!(stderr.matches(": note: not checked: the ").count(), 2, "{jwt}: {stderr}");
        assert_eq!(run(&["limits", &file]).0, Some(0), "{jwt}");
        let (code, _, stderr) = run(&["explain", &file, "--ip", "203.0.113.9"]);
        assert!(code == Some(0) && stderr.contains("[missing-secret]"), "{jwt}: {stderr}");
        let (code, _, stderr) = run(&["serve", "--http", ":0", &file]);
        assert_eq!(code, Some(1), "{jwt}: {stderr}");
    }
    // A key that exists and is unusable is an error: it would be unusable everywhere.
    scratch.file("absent.pem", "not a key");
    let file = scratch.file("policy.yaml", policy("{ algorithm: RS256, key_file: absent.pem }"));
    assert_eq!(run(&["validate", &file]).0, Some(1));
}

#[test]
fn errors_and_warnings_print_codes_that_message_explains() {
    for (text, code) in [("version: 1\nrules: nonsense\n", "wrong-type"), ("version: 1\nrules: []\n", "no-rules")] {
        let (_, _, stderr) = run_with_stdin(&["validate", "-"], text.as_bytes());
        assert!(stderr.lines().next().unwrap().ends_with(&format!(" [{code}]")), "{stderr}");
        assert!(stderr.contains(&format!("`tollgate message {code}`")), "{stderr}");
        let (exit, stdout, _) = run(&["message", code]);
        assert!(exit == Some(0) && stdout.starts_with(&format!("### {code}\n")), "{stdout}");
    }
}

/// Common mistakes of new users, with the first line of the error and the hint.
#[test]
fn common_mistakes_get_an_error_with_a_position_and_a_hint() {
    let rule = |members: &str| format!("version: 1\nrules:\n  - name: a\n    key: client_ip\n    {members}\n");
    for (text, error, hint) in [
        (rule("limit: 1,000/min"), "stdin:5:13: error: not a rate: ", "hint: write 1000/min\n"),
        (
            rule("cost: {path: /x}"),
            "stdin:5:18: error: expected a map of path patterns and costs",
            "such as { /search: 5",
        ),
        (rule("limit: ${LIMIT}"), "stdin:5:12: error: ", "hint: variables are not expanded in a policy"),
        (rule("limit: 5/s\n    burst: 10"), "stdin:6:5: error: unknown member `burst`", "`limit: 60/min burst 10`"),
        (
            rule("when: { path: '^/v[0-9]+/.*' }"),
            "stdin:5:19: error: the path",
            "hint: write `{name}` for any one segment",
        ),
        (
            "version: 1\nrules:\n  - { name: a, key: {header: X-Key}, limit: 5/s }\n".to_owned(),
            "stdin:3:21: error: expected the name of an identity, found a map",
            "`identity: { user: { header: X-Key } }`",
        ),
        ("version: 1\nrules: [\n".to_owned(), "stdin:2:8: error: this `[` is not closed", "hint: add the missing `]`"),
        (
            "domain: shop\ndescriptors:\n  - key: ip\n".to_owned(),
            "stdin:2:1: error: this is a configuration of Envoy's rate limit service",
            "tollgate import envoy FILE",
        ),
    ] {
        let (code, _, stderr) = run_with_stdin(&["validate", "-"], text.as_bytes());
        assert_eq!(code, Some(1), "{text}{stderr}");
        assert!(stderr.contains(error) && stderr.contains(hint), "{text}{stderr}");
    }
}

#[test]
fn missing_password_is_an_error_of_serve_with_its_position() {
    let scratch = Scratch::new("no-password");
    for accept in ["", "accept: missing-password\n"] {
        let policy = format!(
            "version: 1\nstore: {{ redis: {{ nodes: [redis:1], password_env: TOLLGATE_NO_SUCH_VARIABLE }} }}\n{accept}\
             rules: [{{ name: a, key: client_ip, limit: 5/s }}]\n"
        );
        let file = scratch.file("policy.yaml", policy);
        let (code, _, stderr) = run(&["serve", "--http", ":0", &file]);
        assert_eq!(code, Some(3), "{stderr}");
        let expected = format!("{file}:2:51: error: the environment variable `TOLLGATE_NO_SUCH_VARIABLE` is not set");
        assert!(stderr.starts_with(&expected) && stderr.contains(" [missing-password]\n"), "{stderr}");
        let hint = "\n\nhint: `tollgate message missing-password` explains this error\n";
        assert!(stderr.contains("\nhint: provide it where the service runs") && stderr.ends_with(hint), "{stderr}");
    }
}

#[test]
fn invalid_pem_key_is_an_error_with_its_line() {
    let scratch = Scratch::new("bad-pem");
    scratch.file("key.pem", "-----BEGIN PUBLIC KEY-----\nMIIB\n!!!\n-----END PUBLIC KEY-----\n");
    let policy = "version: 1\njwt: { algorithm: RS256, key_file: key.pem }\nrules: [{ name: a, limit: 5/s }]\n";
    let (code, _, stderr) = run(&["validate", &scratch.file("policy.yaml", policy)]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains(":2:36: error: ") && stderr.contains("line 3 contains `!`, which is not base64"),
        "{stderr}"
    );
}
