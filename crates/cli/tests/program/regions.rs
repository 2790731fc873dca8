//! The region of an instance, from the policy, the environment or a flag.

use crate::client::request;
use crate::outputs::policy;
use crate::reload::Directory;
use crate::running::{Running, output, tollgate};

const UNSET: &str = "the policy has regional rules, and the region of this instance is not set";

fn in_memory(own: &str) -> String {
    format!(
        "version: 1
rules:
  - {{ name: per-ip, key: client_ip, limit: 100/h, consistency: regional }}
regions: {{ {own}weights: {{ eu: 60, us: 40 }}, global: {{ nodes: ['127.0.0.1:1'] }} }}
"
    )
}

/// Runs `serve`, which must refuse to start with exit code 2. Returns stderr.
fn refused(environment: &[(&str, &str)], arguments: &[&str]) -> String {
    let mut command = tollgate(&[&["serve"], arguments].concat());
    let output = command.env_remove("TOLLGATE_REGION").envs(environment.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The regions that the service states for its only rule.
fn stated(tollgate: &Running) -> Vec<String> {
    let rules = request(tollgate.admin, "GET", "/api/rules", "").json();
    let regions = rules["rules"].as_array().or_else(|| rules.as_array()).unwrap()[0]["grants"][0]["limits"][0]
        ["regional"]["regions"]
        .as_array()
        .unwrap()
        .clone();
    regions.iter().map(|region| region["region"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn serve_refuses_to_start_without_the_region_of_regional_rules() {
    let file = policy("regional.yaml");
    let stderr = refused(&[], &[&file]);
    let hint =
        "hint: name it with --region or TOLLGATE_REGION, or with `self` under `regions`; known regions: eu, us, ap";
    assert!(stderr.contains(UNSET) && stderr.contains(hint), "{stderr}");
    for stderr in [refused(&[], &["--region", "uss", &file]), refused(&[("TOLLGATE_REGION", "uss")], &[&file])] {
        assert!(stderr.contains("unknown region `uss`") && stderr.contains("did you mean `us`?"), "{stderr}");
    }
}

#[test]
fn flag_precedes_the_environment_and_the_policy() {
    let directory = Directory::new("regions");
    let with = |own: &str, environment: &[(&str, &str)], more: &[&str]| {
        let file = directory.write("policy.yaml", &in_memory(own));
        let arguments = [&["--grpc", "off", "--resp", "off", &file][..], more].concat();
        stated(&Running::serve_in(environment, &arguments))
    };
    assert_eq!(with("self: us, ", &[], &[]), ["us"]);
    assert_eq!(with("self: us, ", &[("TOLLGATE_REGION", "eu")], &[]), ["eu"]);
    assert_eq!(with("", &[("TOLLGATE_REGION", "eu")], &["--region", "us"]), ["us"]);
}

#[test]
fn reload_keeps_the_region_of_the_flag() {
    let directory = Directory::new("regions-reload");
    let file = directory.write("policy.yaml", &in_memory(""));
    let mut tollgate = Running::serve_with(&["--grpc", "off", "--resp", "off", "--region", "eu", &file]);
    let changed = in_memory("").replace("eu: 60", "eu: 70");
    directory.write("policy.yaml", &changed);
    tollgate.signal("HUP");
    assert_eq!(tollgate.line(), format!("tollgate: {file} reloaded: changed: regions"));
    assert_eq!(stated(&tollgate), ["eu"]);
    directory.write("policy.yaml", &changed.replace("eu: 70", "sa: 70"));
    tollgate.signal("HUP");
    let refused = tollgate.line();
    let expected = format!("{file} not reloaded, the previous policy stays active: unknown region `eu`");
    assert!(refused.contains(&expected), "{refused}");
    assert_eq!(stated(&tollgate), ["eu"]);
}

#[test]
fn reload_without_the_needed_region_is_refused() {
    let directory = Directory::new("regions-missing");
    let file = directory.write("policy.yaml", "version: 1\nrules: [{ name: per-ip, key: client_ip, limit: 100/h }]\n");
    let mut tollgate = Running::serve_with(&["--grpc", "off", "--resp", "off", &file]);
    directory.write("policy.yaml", &in_memory(""));
    tollgate.signal("HUP");
    let refused = tollgate.line();
    assert!(refused.contains(UNSET), "{refused}");
}

#[test]
fn validate_refuses_an_unknown_region() {
    let output = output(&["validate", "--region", "sa", &policy("regional.yaml")]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("unknown region `sa`\nhint: known regions: `eu`, `us` and `ap`"), "{stderr}");
}
