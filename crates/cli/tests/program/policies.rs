//! The commands that read a policy, on files that are right, wrong and none at all.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::outputs::policy;
use crate::running::{output, tollgate};

/// A directory that is gone when the test is over.
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

/// The exit code, what it answered and what it said.
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
fn logs_that_the_store_cannot_hold_are_refused_by_validate_and_by_serve() {
    let scratch = Scratch::new("large-log");
    let rule = "{ name: daily, key: client_ip, limit: 100000/day, algorithm: sliding-window-log }";
    let policy =
        |entries: u64| format!("version: 1\nrules: [ {rule} ]\nstore: {{ memory: {{ entries: {entries} }} }}\n");
    let file = scratch.file("policy.yaml", policy(1_000));
    for command in [&["validate"][..], &["serve", "--http", ":0"]] {
        let (code, _, said) = run(&[command, &[file.as_str()]].concat());
        assert_eq!(code, Some(1), "{command:?}: {said}");
        let expected = "the log of one key may take 571583 bytes, and the store has 44521 for one key\n";
        assert!(said.contains(expected) && said.contains("entries: 571584"), "{command:?}: {said}");
    }
    let enough = scratch.file("enough.yaml", policy(571_584));
    assert_eq!(run(&["validate", &enough]).0, Some(0));
}

/// Every command that reads a policy file.
const READERS: [&[&str]; 4] =
    [&["validate"], &["explain", "--ip", "203.0.113.9"], &["limits"], &["serve", "--http", ":0"]];

const WRONG: &str = "version: 1
rules:
  - name: per-ip
    key: client_ip
    limit: 5/fortnight
  - name: per-ip
    key: usr
    limit: 5/min
";

#[test]
fn a_file_that_cannot_be_read_is_a_failure() {
    let scratch = Scratch::new("unread");
    let binary = scratch.file("binary", [b"version: 1\n".as_slice(), &[0xff, 0xfe, 0x00]].concat());
    let missing = scratch.path("missing.yaml");
    let init = format!("hint: `tollgate init {missing}` writes a policy to begin with\n");
    for command in READERS {
        for (file, shown) in [
            (missing.as_str(), "error: the file cannot be read: No such file or directory"),
            (missing.as_str(), &init),
            (&scratch.0.display().to_string(), "error: this is a directory, not a policy file\nhint: "),
            (&binary, ":2: error: the file is not text in UTF-8 from this line on\nhint: "),
        ] {
            let (code, stdout, stderr) = run(&[command, &[file]].concat());
            assert_eq!((code, stdout.as_str()), (Some(3), ""), "{command:?} {stderr}");
            assert!(stderr.contains(shown) && (shown == init || stderr.starts_with(file)), "{command:?} {stderr}");
        }
    }
}

#[test]
fn a_policy_that_is_wrong_is_told_with_its_lines() {
    let scratch = Scratch::new("wrong");
    let file = scratch.file("wrong.yaml", WRONG);
    for command in READERS {
        let (code, stdout, stderr) = run(&[command, &[file.as_str()]].concat());
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{command:?} {stderr}");
        assert!(stderr.starts_with(&format!("{file}:5:")), "{stderr}");
        assert!(stderr.contains("\n  5 |     limit: 5/fortnight\n    |            "), "{stderr}");
        assert!(!stderr.contains('\u{1b}'), "no colours where nobody sees them");
    }
}

#[test]
fn what_is_wrong_is_told_to_programs_too() {
    let scratch = Scratch::new("wrong-json");
    let file = scratch.file("wrong.yaml", WRONG);
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
fn warnings_do_not_make_a_policy_invalid_unless_they_should() {
    let scratch = Scratch::new("warned");
    let file = scratch.file("empty.yaml", "version: 1\nrules: []\n");
    let (code, stdout, stderr) = run(&["validate", &file]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    assert!(stderr.contains(": warning: "), "{stderr}");
    let end = format!(
        "tollgate: {file} is valid: 0 rules, 1 warning\ntollgate: `tollgate message no-rules` says more about the first of them\n"
    );
    assert!(stderr.ends_with(&end), "{stderr}");
    let (code, _, stderr) = run(&["validate", "--strict", &file]);
    assert_eq!(code, Some(1));
    assert!(stderr.ends_with("error: 1 warning, and --strict takes them for errors\n"), "{stderr}");
    let (code, stdout, _) = run(&["validate", "--strict", "--format", "json", &file]);
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &answer["valid"], &answer["warnings"][0]["code"]), (Some(1), &true.into(), &"no-rules".into()));
}

#[test]
fn a_strict_validation_without_warnings_passes() {
    let (_, starter, _) = run(&["init"]);
    let (code, _, stderr) = run_with_stdin(&["validate", "--strict", "-"], starter.as_bytes());
    assert_eq!((code, stderr.as_str()), (Some(0), "tollgate: stdin is valid: 1 rule, 0 warnings\n"));
}

#[test]
fn strict_validation_fails_where_a_rule_can_be_avoided() {
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
fn a_dash_is_stdin() {
    let shop = std::fs::read(policy("shop.yaml")).unwrap();
    for command in [&["validate"][..], &["explain", "--ip", "203.0.113.9"], &["limits"]] {
        let (code, from_stdin, _) = run_with_stdin(&[command, &["-"]].concat(), &shop);
        let (_, from_file, _) = run(&[command, &[policy("shop.yaml").as_str()]].concat());
        assert_eq!(code, Some(0));
        assert_eq!(from_stdin, from_file, "{command:?}");
    }
    let (code, _, stderr) = run_with_stdin(&["validate", "-"], WRONG.as_bytes());
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("stdin:5:14: error: "), "{stderr}");
    let (code, _, stderr) = run_with_stdin(&["validate", "-"], b"version: 1\n\xff");
    assert_eq!(code, Some(3));
    assert!(stderr.starts_with("stdin:2: error: the file is not text"), "{stderr}");
}

#[test]
fn the_starter_policy_is_written_once() {
    let scratch = Scratch::new("init");
    let file = scratch.path("policy.yaml");
    let (code, stdout, stderr) = run(&["init", &file]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    assert_eq!(stderr, format!("tollgate: wrote {file}; `tollgate validate {file}` says what it promises\n"));
    let (code, shown, _) = run(&["init"]);
    assert_eq!((code, &shown), (Some(0), &std::fs::read_to_string(&file).unwrap()));
    assert_eq!(run(&["init", "-"]).1, shown);

    std::fs::write(&file, "mine").unwrap();
    let (code, _, stderr) = run(&["init", &file]);
    assert_eq!(code, Some(3));
    assert_eq!(
        stderr,
        format!("error: {file} exists already\nhint: choose another name, or replace it with --force\n")
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(run(&["init", "--force", &file]).0, Some(0));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), shown);
}

#[test]
fn what_cannot_be_written_is_a_failure() {
    let scratch = Scratch::new("unwritten");
    let directory = scratch.0.display().to_string();
    for file in [scratch.path("no/such/directory.yaml"), directory.clone()] {
        let (code, _, stderr) = run(&["init", "--force", &file]);
        assert_eq!(code, Some(3));
        assert!(stderr.starts_with(&format!("error: cannot write {file}: ")), "{stderr}");
    }
}

#[test]
fn the_schema_is_json() {
    let (code, stdout, stderr) = run(&["schema"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let schema: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(schema["title"], "tollgate policy");
    assert!(stdout.ends_with("}\n"));
}

#[test]
fn an_identity_that_the_policy_does_not_have_is_told() {
    let (code, stdout, stderr) = run(&["explain", &policy("shop.yaml"), "--identity", "usr=42"]);
    assert_eq!(code, Some(0));
    assert_eq!(stderr, "tollgate: the policy has no identity `usr`, so what it is set to changes nothing\n");
    assert!(stdout.contains("per-user does not apply\n  because  identity `user` is absent\n"), "{stdout}");
    assert!(stdout.contains("address  not known\n"), "{stdout}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut command = tollgate(&["schema"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let (code, _, stderr) = read(child.wait_with_output().unwrap());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_store_without_nodes_is_one_mistake() {
    let scratch = Scratch::new("nodes");
    let file = scratch.file("nodes.yaml", "version: 1\nstore: { redis: { nodes: [] } }\nrules: []\n");
    let (code, _, stderr) = run(&["validate", &file]);
    assert_eq!(code, Some(1));
    assert_eq!(stderr.matches(": error: ").count(), 1, "{stderr}");
    assert!(stderr.contains(":2:26: error: expected at least one, found none"), "{stderr}");
}

#[test]
fn validate_against_another_policy_says_which_counts_start_anew() {
    let scratch = Scratch::new("against");
    let policy = |rule: &str| format!("version: 1\nrules:\n  - {{ name: api, {rule} }}\n");
    let old = scratch.file("old.yaml", policy("key: client_ip, limit: 10/h"));
    for (rule, expected) in [
        ("key: client_ip, limit: 7/min, algorithm: fixed-window", "all counts go on\n"),
        (
            "key: client_ip, limit: [10/h, 100/day]",
            "all counts go on but these\n  rule `api`: the limit counted as `api/1day` is new and starts with no counts\n",
        ),
        (
            "limit: 10/h",
            "all counts go on but these\n  rule `api` starts with no counts: it has no key and had key client_ip\n",
        ),
    ] {
        let new = scratch.file("new.yaml", policy(rule));
        let (code, answer, said) = run(&["validate", &new, "--against", &old]);
        assert_eq!(code, Some(0), "{said}");
        assert!(answer.ends_with(&format!("\nreplacing {old}, {expected}")), "{answer}");
        let (_, json, _) = run(&["validate", &new, "--against", &old, "--format", "json"]);
        let changes = serde_json::from_str::<Value>(&json).unwrap()["counter_changes"].as_array().unwrap().len();
        assert_eq!(changes, expected.lines().count() - 1, "{json}");
    }
    let (code, _, said) = run(&["validate", &old, "--against", &scratch.path("none.yaml")]);
    assert_eq!(code, Some(3), "{said}");
}

#[test]
fn paths_that_can_never_match_are_refused_with_a_hint() {
    let policy = |path: &str| {
        format!("version: 1\nrules:\n  - {{ name: r, when: {{ path: '{path}' }}, key: client_ip, limit: 5/min }}\n")
    };
    for (path, hint) in [
        ("^/users/\\d+$", "`{id}` stands for any one segment"),
        ("/users/[0-9]+", "`{id}` stands for any one segment"),
        ("/(login|register)", "several paths are a list"),
        ("/files/{*rest}", "end the path with `/*`"),
        ("/users/user-{id}", "a parameter stands for a whole segment"),
    ] {
        let (code, _, said) = run_with_stdin(&["validate", "-"], policy(path).as_bytes());
        assert_eq!(code, Some(1), "{path}: {said}");
        assert!(said.contains("error: the path") && said.contains(hint), "{path}: {said}");
    }
}

#[test]
fn parameters_of_other_routers_are_one_segment() {
    let text = "version: 1\nrules:\n  - { name: everybody, limit: 100/min }\n  \
        - { name: user, when: { method: GET, path: ['/users/{id}', /people/:id] }, key: client_ip, limit: 5/min }\n";
    let scratch = Scratch::new("parameters");
    let file = scratch.file("policy.yaml", text);
    let (code, answered, said) = run(&["validate", "--strict", &file]);
    assert_eq!(code, Some(0), "{said}");
    assert!(answered.contains("\n  when method GET or HEAD; path /users/{id} or /people/:id\n"), "{answered}");
    for (path, applies) in [("/users/7", true), ("/people/7", true), ("/users", false), ("/users/7/orders", false)] {
        let (_, answered, _) = run(&["explain", &file, "--ip", "203.0.113.9", "--method", "GET", "--path", path]);
        assert_eq!(answered.contains("user applies"), applies, "{path}: {answered}");
    }
}
