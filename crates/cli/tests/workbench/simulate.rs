use crate::program::{Folder, POPULATION, assert_chart, assert_report};

const POLICY: &str = "version: 1
rules:
  - { name: per-ip, key: client_ip, limit: 120/min burst 60 }
  - name: login
    when: { method: POST, path: /auth/login }
    key: client_ip
    limit: 5/min
    algorithm: sliding-window-log
    on_limit: [ { first: 2, action: warn }, { then: reject }, { after: 20 in 10min, action: block 2min } ]
  - { name: cart, when: { path: /cart/* }, key: client_ip, limit: 2/min, algorithm: leaky-bucket, queue: { size: 2 } }
  - { name: half, key: client_ip, limit: 60/min burst 30, shadow: true }
";

const STRICTER: &str = "version: 1
rules: [ { name: per-ip, key: client_ip, limit: 20/min } ]
";

fn folder() -> Folder {
    let folder = Folder::with_log();
    folder.write("policy.yaml", POLICY);
    folder.write("stricter.yaml", STRICTER);
    folder
}

#[test]
fn report_shows_rules_endpoints_and_the_clients_most_hurt() {
    let run = folder().run(&["simulate", "policy.yaml", "--log", "access.log"]);
    assert_report("simulate.txt", run.success());
    assert!(run.stderr.contains("the log has whole seconds"), "{}", run.stderr);
}

#[test]
fn report_against_another_policy_shows_what_changes() {
    let arguments = ["simulate", "stricter.yaml", "--log", "access.log", "--against", "policy.yaml"];
    assert_report("simulate-against.txt", folder().run(&arguments).success());
}

#[test]
fn json_has_the_members_of_the_contract_and_sums_that_agree() {
    let folder = folder();
    let arguments =
        ["simulate", "policy.yaml", "--log", "access.log", "--format", "json", "--against", "stricter.yaml"];
    let answer = folder.run(&arguments).json();
    let number = |member: &str| answer[member].as_u64().unwrap_or_else(|| panic!("{member}"));
    assert_eq!(number("lines"), POPULATION.requests().len() as u64);
    assert_eq!((number("unreadable"), number("clients")), (0, 182));
    assert_eq!(number("allowed") + number("refused"), number("lines"));
    assert!(["warned", "delayed", "blocked"].iter().all(|action| number(action) > 0));
    let rules = answer["rules"].as_array().unwrap();
    let names: Vec<_> = rules.iter().map(|rule| serde_json::json!([rule["rule"], rule["shadow"]])).collect();
    let expected = serde_json::json!([["per-ip", false], ["login", false], ["cart", false], ["half", true]]);
    assert_eq!(serde_json::json!(names), expected);
    assert!(rules.iter().all(|rule| rule["clients_refused"].is_u64() && rule["refused"].is_u64()));
    let worst = &answer["worst_clients"][0];
    assert!(worst["refused"].as_u64().unwrap() > 1_000 && worst["peak_per_minute"].as_u64().unwrap() > 600, "{worst}");
    let over_time = &answer["over_time"];
    let sum = |kind: &str| over_time[kind].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum::<u64>();
    for action in ["allowed", "refused", "warned", "delayed", "blocked"] {
        assert_eq!(sum(action), number(action), "{action} over time");
        let endpoints = answer["endpoints"].as_array().unwrap();
        let at_endpoints = endpoints.iter().map(|endpoint| endpoint[action].as_u64().unwrap()).sum::<u64>();
        assert_eq!(at_endpoints, number(action), "{action} by endpoint");
    }
    let of_rule = |at: usize, action: &str| rules[at][action].as_u64().unwrap();
    assert_eq!((of_rule(1, "warned"), of_rule(1, "blocked")), (number("warned"), number("blocked")));
    assert!(of_rule(2, "delayed") >= number("delayed") && worst["blocked"].is_u64());
    let against = &answer["against"];
    let newly = |member: &str| against[member].as_u64().unwrap();
    assert_eq!(newly("allowed") - newly("newly_refused") + newly("newly_allowed"), number("allowed"));
}

#[test]
fn stdin_several_logs_and_a_compressed_log_give_the_same_report() {
    let folder = folder();
    let whole = folder.run(&["simulate", "policy.yaml", "--log", "access.log", "--format", "json"]).json();
    let stdin = folder.run_with_stdin(&["simulate", "policy.yaml", "--log", "-", "--format", "json"], "access.log");
    assert_eq!(stdin.json(), whole);
    // Every second line in another log: they are merged by time.
    let log = folder.read("access.log");
    for (name, odd) in [("odd.log", 1), ("even.log", 0)] {
        let lines = log.lines().enumerate().filter(|(at, _)| at % 2 == odd).map(|(_, line)| format!("{line}\n"));
        folder.write(name, lines.collect::<String>());
    }
    let arguments = ["simulate", "policy.yaml", "--log", "even.log", "--log", "odd.log", "--format", "json"];
    let merged = folder.run(&arguments).json();
    assert_eq!((&merged["lines"], &merged["clients"]), (&whole["lines"], &whole["clients"]));
}

#[test]
fn chart_of_a_simulation_is_written() {
    let folder = folder();
    let run = folder.run(&["simulate", "policy.yaml", "--log", "access.log", "--plot", "chart.svg"]);
    assert!(!run.success().contains('█'));
    assert_chart("simulate.svg", &folder.read("chart.svg"));
}

#[test]
fn invalid_and_missing_policies_are_reported_before_the_log_is_read() {
    let folder = folder();
    folder.write("invalid.yaml", "version: 1\nrules: [ { name: r, limit: many } ]\n");
    folder.run(&["simulate", "invalid.yaml", "--log", "missing.log"]).assert_fails(1, &["invalid.yaml:2:"]);
    folder.run(&["simulate", "missing.yaml", "--log", "access.log"]).assert_fails(3, &["missing.yaml"]);
    folder.run(&["simulate", "policy.yaml"]).assert_fails(2, &["--log <LOG>"]);
    for twice in [&["-", "--log", "-"][..], &["policy.yaml", "--log", "-", "-"], &["-", "--log", "x", "--against", "-"]]
    {
        let run = folder.run(&[&["simulate"], twice].concat());
        run.assert_fails(2, &["error: stdin can be read only once\nhint: name files for all but one `-`"]);
    }
}
