//! Two regions, each with its own Redis server, and the global server that they share.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_testbed::RedisServer;

use crate::client::request;
use crate::reload::Directory;
use crate::running::Running;

/// Far longer than the few epochs of a second that anything takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The servers of the regions `eu` and `us`, and the one of both.
struct Servers {
    eu: RedisServer,
    us: RedisServer,
    global: RedisServer,
    directory: Directory,
}

impl Servers {
    fn start(name: &str) -> Servers {
        let server = || RedisServer::start(&[]).unwrap();
        Servers { eu: server(), us: server(), global: server(), directory: Directory::new(name) }
    }

    /// Writes the policy of a region, and returns the name of its file.
    fn policy(&self, region: &str, weights: &str, limit: &str) -> String {
        let store = if region == "eu" { &self.eu } else { &self.us };
        // A long deadline: on a busy machine, no decision may be a fallback because a server is slow.
        let text = format!(
            "version: 1
rules:
  - {{ name: per-ip, key: client_ip, limit: {limit}, consistency: regional }}
regions: {{ weights: {{ {weights} }}, sync: 1s, global: {{ nodes: ['{}'] }} }}
store: {{ redis: {{ nodes: ['{}'], deadline: 5s, on_failure: closed }} }}
",
            self.global.address(),
            store.address()
        );
        self.directory.write(&format!("{region}.yaml"), &text)
    }

    fn serve(&self, region: &str, weights: &str) -> Running {
        let file = self.policy(region, weights, "1000/h");
        Running::serve_with(&["--grpc", "off", "--resp", "off", "--region", region, &file])
    }
}

/// Reads the log until a line begins with this text, and returns the rest of it.
fn line_after(tollgate: &mut Running, beginning: &str) -> String {
    let beginning = format!("tollgate: {beginning}");
    let mut lines = Vec::new();
    while lines.len() < 50 {
        let line = tollgate.line();
        assert!(!line.is_empty(), "the log ended: {lines:?}");
        if let Some(rest) = line.strip_prefix(&beginning) {
            return rest.to_owned();
        }
        lines.push(line);
    }
    panic!("no line begins with {beginning:?}: {lines:?}");
}

fn check(tollgate: &Running) -> Value {
    request(tollgate.http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#).json()
}

fn regions(tollgate: &Running) -> Value {
    let response = request(tollgate.admin, "GET", "/api/regions", "");
    assert_eq!(response.status, 200, "{response:?}");
    response.json()
}

#[track_caller]
fn wait_until(condition: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < TIMEOUT, "timed out waiting until {condition}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn metric(tollgate: &Running, name: &str) -> String {
    let metrics = request(tollgate.admin, "GET", "/metrics", "").body;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {metrics}")).to_owned()
}

#[test]
fn regions_enforce_their_shares_and_report_them() {
    let mut servers = Servers::start("region-servers");
    let mut eu = servers.serve("eu", "eu: 60, us: 40");
    let mut us = servers.serve("us", "eu: 60, us: 40");
    for (tollgate, region, percent, limit) in [(&mut eu, "eu", 60, 600), (&mut us, "us", 40, 400)] {
        let synced = line_after(tollgate, &format!("region {region} is synchronised with the other regions: "));
        let expected = format!("its share of regional limits is {percent} % (eu=60 us=40 with sync 1s)");
        assert_eq!(synced, expected);
        let answer = check(tollgate);
        assert_eq!((&answer["source"], &answer["limit"]), (&json!("regional"), &json!(limit)), "{answer}");
        refuses_beyond_the_share(tollgate, limit);
        let status = regions(tollgate);
        assert_eq!((&status["region"], &status["share_thousandths"]), (&json!(region), &json!(limit)), "{status}");
        assert_eq!(status["agreed"], json!({ "weights": { "eu": 60, "us": 40 }, "sync_ms": 1_000, "from_ms": 0 }));
        assert_eq!((&status["pending"], &status["missing_share"]), (&json!(false), &Value::Null), "{status}");
        assert_eq!(metric(tollgate, &format!("tollgate_region_info{{region=\"{region}\"}}")), "1");
        assert_eq!(metric(tollgate, "tollgate_region_share_ratio"), format!("0.{percent}0000"));
        assert_eq!(metric(tollgate, "tollgate_region_share_missing"), "0");
        assert_eq!(metric(tollgate, "tollgate_region_epoch_seconds"), "1.0");
    }
    wait_until("a report of each region is accepted and read", || {
        [&eu, &us].into_iter().all(|tollgate| {
            ["tollgate_region_reports_total", "tollgate_region_reads_total"]
                .into_iter()
                .all(|name| metric(tollgate, name).parse::<u64>().unwrap() > 0)
        })
    });
    assert!(regions(&eu)["epoch_start_ms"].as_u64() > Some(0));

    reloads_keep_the_share(&servers, &mut eu);

    servers.global.kill().unwrap();
    let address = servers.global.address();
    for (tollgate, region, percent) in [(&mut eu, "eu", 60), (&mut us, "us", 40)] {
        let unreached = line_after(tollgate, "error: the global server of the regions cannot be reached: ");
        let expected = format!(
            "{address}; until it answers, region {region} enforces at most {percent} % of the rate of regional limits"
        );
        assert_eq!(unreached, expected);
        assert_eq!(check(tollgate)["source"], "regional");
        let status = regions(tollgate);
        assert_eq!(status["share_thousandths"], json!(percent * 10), "{status}");
        assert!(status["failures"]["global"].as_u64() > Some(1), "{status}");
    }
    // It starts without what the regions have agreed on.
    servers.global.restart().unwrap();
    for tollgate in [&mut eu, &mut us] {
        assert_eq!(
            line_after(tollgate, "the global server of the regions answers: "),
            servers.global.address().to_string()
        );
        wait_until("the share is agreed again", || {
            let status = regions(tollgate);
            status["agreed"]["weights"] == json!({ "eu": 60, "us": 40 }) && status["share_thousandths"] != Value::Null
        });
        assert_eq!(check(tollgate)["source"], "regional");
    }
}

/// Uses up the burst of the region for a client.
fn refuses_beyond_the_share(tollgate: &Running, limit: u64) {
    let check = |cost: u64| {
        let body = json!({ "ip": "203.0.113.8", "cost": cost });
        request(tollgate.http, "POST", "/v1/check", &body.to_string()).json()
    };
    let answer = check(limit);
    assert_eq!((&answer["allowed"], &answer["remaining"]), (&json!(true), &json!(0)), "{answer}");
    // At no more than its share of 1000 an hour, the next token takes more than 3.6 s.
    for _ in 0..3 {
        let answer = check(1);
        assert_eq!((&answer["allowed"], &answer["limit"]), (&json!(false), &json!(limit)), "{answer}");
        assert!(answer["source"] == "regional" || answer["source"] == "cached", "{answer}");
        assert!(answer["retry_after_ms"].as_u64() > Some(3_600), "{answer}");
    }
}

fn reloads_keep_the_share(servers: &Servers, eu: &mut Running) {
    let file = servers.policy("eu", "eu: 60, us: 40", "2000/h");
    eu.signal("HUP");
    let changes = line_after(eu, &format!("{file} reloaded: "));
    assert!(changes.starts_with("1 rule changed: `per-ip` (2000/h"), "{changes}");
    let answer = check(eu);
    assert_eq!((&answer["source"], &answer["limit"]), (&json!("regional"), &json!(1_200)), "{answer}");
    servers.policy("eu", "eu: 10, us: 90", "2000/h");
    let answer = request(eu.admin, "POST", "/api/reload", "");
    assert_eq!(answer.status, 200, "{answer:?}");
    let stays = "the changed regions apply after a restart; until then the shares and the global server stay";
    assert!(answer.body.contains(stays), "{answer:?}");
    assert_eq!(line_after(eu, &format!("{file}: ")), stays);
    assert_eq!(regions(eu)["configured"]["weights"], json!({ "eu": 60, "us": 40 }));
    assert_eq!(check(eu)["limit"], 1_200);
}

#[test]
fn changed_weights_hold_when_all_regions_have_voted_for_them() {
    let servers = Servers::start("region-weights");
    let mut us = servers.serve("us", "eu: 60, us: 40");
    line_after(&mut us, "region us is synchronised");
    let mut eu = servers.serve("eu", "eu: 20, us: 80");
    // The first vote of `eu` is for other weights than the agreed ones.
    let pending = line_after(&mut eu, "the policy's weights are not in effect: ");
    let expected = "eu=20 us=80 with sync 1s; the regions have agreed on eu=60 us=40 with sync 1s; waiting for the votes \
                    of us";
    assert_eq!(pending, expected);
    let status = regions(&eu);
    assert_eq!((&status["pending"], &status["awaited_votes"]), (&json!(true), &json!(["us"])), "{status}");
    // The smaller of both shares.
    assert_eq!(status["share_thousandths"], 200, "{status}");
    assert_eq!(metric(&eu, "tollgate_region_weights_pending"), "1");
    us.signal("TERM");
    assert_eq!(us.exit_code(), Some(0));
    let us = servers.serve("us", "eu: 20, us: 80");
    let agreed = line_after(&mut eu, "the regions have agreed on the policy's weights: ");
    assert_eq!(agreed, "eu=20 us=80 with sync 1s; they take effect within two epochs");
    wait_until("the new weights hold", || regions(&us)["share_thousandths"] == 800);
    assert_eq!(metric(&eu, "tollgate_region_weights_pending"), "0");
    assert_eq!(check(&us)["limit"], 800);
}

/// A region that has stopped cannot vote for weights without itself: its vote is deleted.
#[test]
fn region_that_has_left_is_not_waited_for_after_its_vote_is_deleted() {
    let servers = Servers::start("region-leaves");
    let mut us = servers.serve("us", "eu: 60, us: 40");
    line_after(&mut us, "region us is synchronised");
    us.signal("TERM");
    assert_eq!(us.exit_code(), Some(0));
    let mut eu = servers.serve("eu", "eu: 50, ap: 50");
    let pending = line_after(&mut eu, "the policy's weights are not in effect: ap=50 eu=50 with sync 1s; ");
    assert_eq!(pending, "the regions have agreed on eu=60 us=40 with sync 1s; waiting for the votes of us");
    servers.global.command(&["HDEL", "tollgate:\\.regions", "vote:us"]).unwrap();
    let agreed = line_after(&mut eu, "the regions have agreed on the policy's weights: ");
    assert_eq!(agreed, "ap=50 eu=50 with sync 1s; they take effect within two epochs");
    assert_eq!(regions(&eu)["share_thousandths"], 500);
}

#[test]
fn service_without_regions_has_no_state_of_regions() {
    let tollgate = Running::serve();
    let response = request(tollgate.admin, "GET", "/api/regions", "");
    assert_eq!(response.status, 404, "{response:?}");
    assert!(response.body.contains("this service has no regions"), "{response:?}");
    assert!(!request(tollgate.admin, "GET", "/metrics", "").body.contains("tollgate_region_"));
}

/// Two regions whose counters are in memory; only the global server is on Redis.
#[test]
fn regions_in_memory_enforce_their_shares_and_notice_a_second_instance() {
    let global = RedisServer::start(&[]).unwrap();
    let directory = Directory::new("region-memory");
    let policy = format!(
        "version: 1
rules:
  - {{ name: per-ip, key: client_ip, limit: 1000/h, consistency: regional }}
  - {{ name: all, limit: 900/h }}
regions: {{ weights: {{ eu: 60, us: 40 }}, sync: 1s, global: {{ nodes: ['{}'] }} }}
",
        global.address()
    );
    let file = directory.write("policy.yaml", &policy);
    let serve = |region| Running::serve_with(&["--grpc", "off", "--resp", "off", "--region", region, &file]);
    let [mut eu, mut us] = ["eu", "us"].map(serve);
    for (tollgate, region, limit) in [(&mut eu, "eu", 600), (&mut us, "us", 400)] {
        line_after(tollgate, &format!("region {region} is synchronised with the other regions: "));
        let answer = check(tollgate);
        let decided = (&answer["source"], &answer["limit"], &answer["rules"][1]["limit"]);
        assert_eq!(decided, (&json!("regional"), &json!(limit), &json!(900)), "{answer}");
        refuses_beyond_the_share(tollgate, limit);
        // Both clients; the number of other keys is an estimate.
        assert!(metric(tollgate, "tollgate_keys").parse::<u64>().unwrap() >= 2);
    }
    wait_until("the regions exchange reports", || regions(&eu)["reads"].as_u64() > Some(1));
    assert_eq!(metric(&eu, "tollgate_region_second_instance_reports_total"), "0");
    let mut second = serve("eu");
    // The one that reports first in an epoch notices that the other one has reported too.
    let has_noticed = |tollgate: &Running| metric(tollgate, "tollgate_region_second_instance_reports_total") != "0";
    wait_until("an instance has noticed the other", || has_noticed(&eu) || has_noticed(&second));
    let noticing = if has_noticed(&eu) { &mut eu } else { &mut second };
    let warned = "error: another instance of region eu is running, and each admits the whole share of the region: ";
    let noticed = line_after(noticing, warned);
    assert!(noticed.starts_with("with `store: memory` a region must be one instance"), "{noticed}");
}
