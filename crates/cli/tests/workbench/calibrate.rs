use std::collections::BTreeSet;

use crate::program::{Folder, POPULATION, assert_chart, assert_report};

#[test]
fn report_shows_distributions_limits_and_clients_that_stand_out() {
    let folder = Folder::with_log();
    let run = folder.run(&["calibrate", "--log", "access.log", "--plot", "chart.svg"]);
    assert_report("calibrate.txt", run.success());
    assert_chart("calibrate.svg", &folder.read("chart.svg"));
    assert!(run.stderr.contains("the log covers 9 min"), "{}", run.stderr);
}

#[test]
fn written_policy_is_valid_and_the_simulation_confirms_its_figures() {
    let folder = Folder::with_log();
    let arguments = ["calibrate", "--log", "access.log", "--write", "policy.yaml", "--format", "json"];
    let calibration = folder.run(&arguments).json();
    assert_report("calibrate.json", &format!("{calibration:#}\n"));
    assert_report("calibrated-policy.yaml", &folder.read("policy.yaml"));
    folder.run(&["validate", "--strict", "policy.yaml"]).success();
    let report = folder.run(&["simulate", "policy.yaml", "--log", "access.log"]);
    assert_report("simulate-calibrated.txt", report.success());
    let simulation = folder.run(&["simulate", "policy.yaml", "--log", "access.log", "--format", "json"]).json();
    let (proposals, rules) = (calibration["proposals"].as_array().unwrap(), simulation["rules"].as_array().unwrap());
    assert_eq!((proposals.len(), rules.len()), (3, 3));
    for (proposal, rule) in proposals.iter().zip(rules) {
        assert_eq!(rule["refused"], proposal["requests_touched"], "{rule}");
        assert_eq!(rule["clients_refused"], proposal["clients_touched"], "{rule}");
    }
    // The truth about the population: who is refused, and how much.
    let bad: BTreeSet<String> = POPULATION
        .requests()
        .iter()
        .filter(|request| !request.behaviour.is_ordinary())
        .map(|request| request.client_ip.to_string())
        .collect();
    for client in simulation["worst_clients"].as_array().unwrap() {
        let count = |member: &str| client[member].as_u64().unwrap();
        assert!(bad.contains(client["client"].as_str().unwrap()), "{client}");
        assert!(count("refused") * 10 >= count("requests") * 9, "{client}");
    }
    assert_eq!(simulation["clients_refused"], bad.len());
}

#[test]
fn report_shows_how_many_well_behaved_clients_a_low_limit_refuses() {
    let folder = Folder::with_log();
    let run = folder.run(&["calibrate", "--log", "access.log", "--share", "90%", "--margin", "0%"]);
    let line = run.success().lines().find(|line| line.contains("among 180 well-behaved clients")).unwrap_or_default();
    // A share of 90 % may leave out 18 of 180 clients.
    let clients: u64 = line.split(" of ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
    assert!((1..=18).contains(&clients), "{line}");
}

#[test]
fn page_shows_these_reports() {
    let page = include_str!("../../../../docs/workbench.md");
    for report in [
        include_str!("reports/calibrate.txt"),
        include_str!("reports/calibrated-policy.yaml"),
        include_str!("reports/simulate-calibrated.txt"),
    ] {
        assert!(page.contains(report), "expected in a block:\n{report}");
    }
}

#[test]
fn existing_files_are_replaced_only_by_force() {
    let folder = Folder::with_log();
    folder.write("policy.yaml", "mine");
    let arguments = ["calibrate", "--log", "missing.log", "--write", "policy.yaml"];
    folder.run(&arguments).assert_fails(3, &["policy.yaml exists already", "hint: choose another name"]);
    assert_eq!(folder.read("policy.yaml"), "mine");
    folder.run(&["calibrate", "--log", "access.log", "--write", "policy.yaml", "--force"]).success();
    assert!(folder.read("policy.yaml").starts_with("# Proposed by"));
}

#[test]
fn policy_on_stdout_is_the_only_output() {
    let folder = Folder::with_log();
    let policy = folder.run(&["calibrate", "--log", "access.log", "--write", "-"]);
    assert!(policy.success().starts_with("# Proposed by") && policy.stdout.ends_with("writes-per-client-ip]\n"));
    let json = folder.run(&["calibrate", "--log", "access.log", "--write", "-", "--format", "json"]);
    json.assert_fails(2, &["cannot both be on stdout", "hint: write the policy to a file"]);
}

#[test]
fn keys_and_columns_of_the_log_are_calibrated() {
    let folder = Folder::empty();
    let line = |second: u64| {
        let (ip, key) = (second % 30, second % 3);
        format!("2026-01-01T00:{:02}:{:02}Z,10.0.0.{ip},GET,/items/{second},200,key-{key}\n", second / 60, second % 60)
    };
    let lines: String = (0..1_800).map(line).collect();
    folder.write("log.csv", format!("time,client_ip,method,path,status,api_key\n{lines}"));
    let arguments = ["calibrate", "--log", "log.csv", "--by", "client_ip,api_key,user", "--write", "p.yaml"];
    let run = folder.run(&arguments);
    assert!(
        run.success().contains("30 clients by client_ip, 3 clients by api_key, 0 clients by user"),
        "{}",
        run.stdout
    );
    assert!(run.stderr.contains("warning: no request has a value of `user`"), "{}", run.stderr);
    folder.run(&["validate", "--strict", "p.yaml"]).success();
    let simulation = folder.run(&["simulate", "p.yaml", "--log", "log.csv", "--format", "json"]).json();
    assert_eq!((&simulation["refused"], &simulation["rules"][1]["allowed"]), (&0.into(), &1_800.into()));
}

#[test]
fn wrong_usage_is_explained() {
    let folder = Folder::empty();
    let fails = |arguments: &[&str], shown: &[&str]| {
        folder.run(&[&["calibrate", "--log", "x"], arguments].concat()).assert_fails(2, shown);
    };
    fails(&["--margin", "much"], &["a whole number of percent from 0% to 1000%"]);
    fails(&["--share", "10%"], &["a share from 50% to 100%"]);
    fails(&["--by", "Client"], &["expected client_ip, user, host, path, or the name of a field"]);
    folder.run(&["calibrate"]).assert_fails(2, &["--log <LOG>"]);
}
