//! Errors of the import, with their positions.

use crate::importing::output;

fn error_of(configuration: &str) -> String {
    let output = output(configuration);
    assert_eq!(output.status.code(), Some(1), "{configuration}");
    assert!(output.stdout.is_empty(), "no incomplete policy");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn errors_have_a_line_and_a_column() {
    for (configuration, line) in [
        ("descriptors: []\n", "stdin:1:1: error: the member `domain` is missing"),
        ("domain: a\ndescriptor: []\n", "stdin:2:1: error: unknown key `descriptor`"),
        ("domain: a\ndomain: b\n", "stdin:2:1: error: "),
        ("domain: a\ndescriptors:\n  - value: x\n", "stdin:3:5: error: the member `key` is missing"),
        ("domain: a\ndescriptors:\n  - { key: x, ratelimit: {} }\n", "stdin:3:15: error: unknown key `ratelimit`"),
        (
            "domain: a\ndescriptors:\n  - { key: x }\n  - { key: x }\n",
            "stdin:4:5: error: two descriptors have the key `x` and the same value",
        ),
        (
            "domain: a\ndescriptors: [ { key: x, descriptors: [ { key: x } ] } ]\n",
            "stdin:2:48: error: the key `x` is nested in itself",
        ),
        (
            "domain: a\ndescriptors: [ { key: x, rate_limit: { unit: fortnight, requests_per_unit: 1 } } ]\n",
            "stdin:2:46: error: expected a `unit`",
        ),
        (
            "domain: a\ndescriptors: [ { key: x, rate_limit: { unit: day, requests_per_unit: -1 } } ]\n",
            "stdin:2:70: error: expected a whole number from 0 to 4294967295",
        ),
        (
            "domain: a\ndescriptors: [ { key: x, rate_limit: { unit: day, unit_multiplier: 0 } } ]\n",
            "stdin:2:68: error: expected a whole number from 1 to 4294967295",
        ),
        (
            "domain: a\ndescriptors: [ { key: x, rate_limit: { unit: day, unlimited: true } } ]\n",
            "stdin:2:46: error: an unlimited rate_limit has no unit",
        ),
        (
            "domain: a\ndescriptors: [ { key: PATH }, { key: path } ]\n",
            "stdin:2:38: error: the keys `path` and `PATH` differ only in case",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\ndata: { config.yaml: \"domain: a\" }\n",
            "stdin:1:1: error: this is a Kubernetes object",
        ),
        ("domain: a\ndescriptors: [ { key: \":path\" } ]\n", "stdin:2:23: error: an entry with the name `:path`"),
        ("domain: a\ndescriptors: [ { key: x, quota_mode: true } ]\n", "stdin:2:26: error: `quota_mode` has no"),
        (
            "domain: a
descriptors:
  - { key: x, descriptors: [ { key: y, rate_limit: { unit: day, requests_per_unit: 1 } } ] }
  - { key: y, descriptors: [ { key: x, rate_limit: { unit: day, requests_per_unit: 1 } } ] }
",
            "stdin:4:30: error: the same entries have a limit in another order",
        ),
        ("domain: [\n", "stdin:"),
        ("domain: a\ndescriptors: 5\n", "stdin:2:14: error: expected a list of descriptors, found `5`"),
    ] {
        let stderr = error_of(configuration);
        assert!(stderr.starts_with(line), "{configuration}{stderr}");
    }
}

#[test]
fn two_files_with_the_same_domain_are_rejected() {
    let directory = std::env::temp_dir();
    let file = directory.join(format!("tollgate-import-{}.yaml", std::process::id()));
    std::fs::write(&file, "domain: a\ndescriptors: []\n").unwrap();
    let run = |files: [&std::path::Path; 2]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args(["import", "envoy"]).args(files).output().unwrap()
    };
    let refused = run([&file, &file]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(stderr.contains(":1:9: error: the domain `a` is already configured by another file"), "{stderr}");
    let absent = run([&file, &file]);
    assert_eq!(absent.status.code(), Some(3));
}
