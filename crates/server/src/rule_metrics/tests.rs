use tollgate::policy::parse;
use tollgate::{CheckedPolicy, Limiter, ManualClock, Request, Verdict};

use super::*;
use crate::metrics::exposition::Exposition;

const POLICY: &str = "version: 1
rules:
  - { name: all, limit: 4/min }
  - { name: pay, when: { path: [/pay, '/pay/*'] }, limit: 2/min }
  - { name: watched, shadow: true, when: { path: /pay }, limit: 1/min }
";

fn policy(text: &str) -> CheckedPolicy {
    parse(text, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}")).policy
}

fn limiter(text: &str) -> Limiter {
    Limiter::in_memory(&policy(text), ManualClock::at(1)).unwrap()
}

struct Counting {
    limiter: Limiter,
    metrics: RuleMetrics,
}

impl Counting {
    fn under(text: &str) -> Counting {
        let (limiter, metrics) = (limiter(text), RuleMetrics::new());
        metrics.prepare_for(&limiter.policy());
        Counting { limiter, metrics }
    }

    fn check(&self, path: &str, cost: u64) -> Verdict {
        let request = Request { target: path, cost, ..Request::from_peer(None) };
        let verdict = self.limiter.check(&request);
        self.count(&request, &verdict);
        verdict
    }

    fn count(&self, request: &Request<'_>, verdict: &Verdict) {
        self.metrics.count(Decided { front_end: FrontEnd::Http, request, verdict, deciding: verdict.deciding() }, 1);
    }

    fn replace(&self, text: &str) {
        self.limiter.set_policy(&policy(text)).unwrap();
        self.metrics.prepare_for(&self.limiter.policy());
    }

    fn text(&self) -> String {
        let mut text = String::new();
        self.metrics.totals().write(&mut Exposition::behind(&mut text));
        text
    }

    #[track_caller]
    fn assert_lines(&self, lines: &[&str]) {
        let text = self.text();
        for line in lines {
            assert!(text.lines().any(|other| other == *line), "no line {line} in\n{text}");
        }
    }
}

fn decided(rule: &str, outcome: &str, count: u64) -> String {
    format!("tollgate_decisions_total{{rule=\"{rule}\",outcome=\"{outcome}\",frontend=\"http\"}} {count}")
}

#[test]
fn a_rule_is_counted_also_where_another_decides() {
    let counting = Counting::under(POLICY);
    for path in ["/pay", "/pay", "/pay", "/other"] {
        counting.check(path, 1);
    }
    counting.assert_lines(&[
        &decided("pay", "allow", 2),
        &decided("pay", "reject", 1),
        &decided("all", "allow", 1),
        &decided("all", "reject", 0),
        "tollgate_rule_refusals_total{rule=\"pay\",mode=\"enforce\"} 1",
        "tollgate_rule_refusals_total{rule=\"all\",mode=\"enforce\"} 0",
        "tollgate_rule_refusals_total{rule=\"watched\",mode=\"shadow\"} 2",
        "tollgate_endpoint_decisions_total{endpoint=\"/pay\",rule=\"pay\",outcome=\"allowed\"} 2",
        "tollgate_endpoint_decisions_total{endpoint=\"/pay\",rule=\"pay\",outcome=\"refused\"} 1",
        "tollgate_endpoint_decisions_total{endpoint=\"other\",rule=\"all\",outcome=\"allowed\"} 1",
    ]);
}

#[test]
fn an_endpoint_is_a_pattern_and_never_a_path() {
    let counting = Counting::under(POLICY);
    counting.check("/pay/17", 1);
    counting.check("/pay/18", 1);
    counting
        .assert_lines(&["tollgate_endpoint_decisions_total{endpoint=\"/pay/*\",rule=\"pay\",outcome=\"allowed\"} 2"]);
    assert!(!counting.text().contains("/pay/1"));
}

#[test]
fn headroom_is_told_for_every_rule_that_was_met() {
    let counting = Counting::under(POLICY);
    counting.check("/pay/17", 1);
    counting.check("/pay/17", 1);
    counting.check("/pay/17", 1);
    // Three quarters of `all` remained, then half of it; the third was charged nowhere.
    counting.assert_lines(&[
        "tollgate_headroom_ratio_bucket{rule=\"all\",le=\"0.25\"} 0",
        "tollgate_headroom_ratio_bucket{rule=\"all\",le=\"0.5\"} 2",
        "tollgate_headroom_ratio_bucket{rule=\"all\",le=\"0.75\"} 3",
        "tollgate_headroom_ratio_bucket{rule=\"all\",le=\"+Inf\"} 3",
        "tollgate_headroom_ratio_sum{rule=\"all\"} 1.750000",
        "tollgate_headroom_ratio_count{rule=\"all\"} 3",
        "tollgate_headroom_ratio_bucket{rule=\"pay\",le=\"0\"} 2",
        "tollgate_headroom_ratio_sum{rule=\"pay\"} 0.500000",
    ]);
    assert!(!counting.text().contains("tollgate_headroom_ratio_count{rule=\"watched\"}"));
}

#[test]
fn who_only_asks_is_counted_apart() {
    let counting = Counting::under(POLICY);
    counting.check("/pay", 0);
    counting.assert_lines(&[&decided("pay", "allow", 0)]);
    let text = counting.text();
    assert_eq!(text.matches("outcome=\"peek\"").count(), 1);
    assert!(!text.contains("tollgate_headroom_ratio_count{") && !text.contains("endpoint=\""));
}

#[test]
fn a_warning_is_counted_for_its_rule() {
    let warns = "version: 1
rules: [ { name: login, limit: 1/min, on_limit: [ { first: 1, action: warn }, { then: reject } ] } ]
";
    let counting = Counting::under(warns);
    (0..3).for_each(|_| drop(counting.check("/login", 1)));
    counting.assert_lines(&[
        &decided("login", "allow", 1),
        &decided("login", "warn", 1),
        &decided("login", "reject", 1),
        "tollgate_rule_warnings_total{rule=\"login\"} 1",
        "tollgate_rule_refusals_total{rule=\"login\",mode=\"enforce\"} 2",
    ]);
}

#[test]
fn counts_go_on_under_another_policy() {
    let counting = Counting::under(POLICY);
    counting.check("/pay", 1);
    // Some still count for the policy that is gone.
    let old = counting.limiter.policy();
    counting.replace("version: 1\nrules: [ { name: pay, limit: 5/min }, { name: all, limit: 9/min } ]\n");
    counting.check("/pay", 1);
    for _ in 0..2 {
        counting.assert_lines(&[&decided("pay", "allow", 2), &decided("all", "allow", 0)]);
    }
    assert_eq!(counting.metrics.lock().policies.len(), 2);
    drop(old);
    for _ in 0..2 {
        counting.assert_lines(&[
            &decided("pay", "allow", 2),
            &decided("watched", "allow", 0),
            "tollgate_endpoint_decisions_total{endpoint=\"/pay\",rule=\"pay\",outcome=\"allowed\"} 1",
            "tollgate_endpoint_decisions_total{endpoint=\"other\",rule=\"pay\",outcome=\"allowed\"} 1",
        ]);
    }
    assert_eq!(counting.metrics.lock().policies.len(), 1);
}

#[test]
fn a_decision_that_a_reload_overtook_is_counted() {
    let counting = Counting::under(POLICY);
    let request = Request { target: "/pay", ..Request::from_peer(None) };
    let verdicts = [counting.limiter.check(&request), counting.limiter.check(&request)];
    counting.replace("version: 1\nrules: [ { name: new, when: { path: /pay }, limit: 1/min } ]\n");
    for verdict in &verdicts {
        counting.count(&request, verdict);
    }
    // Nobody has said yet that this one is in force.
    counting.limiter.set_policy(&policy("version: 1\nrules: [ { name: newer, limit: 1/min } ]\n")).unwrap();
    counting.check("/pay", 1);
    drop(verdicts);
    for _ in 0..2 {
        counting.assert_lines(&[
            &decided("pay", "allow", 2),
            &decided("new", "allow", 0),
            &decided("newer", "allow", 1),
            "tollgate_headroom_ratio_count{rule=\"pay\"} 2",
            "tollgate_rule_refusals_total{rule=\"watched\",mode=\"shadow\"} 1",
            "tollgate_endpoint_decisions_total{endpoint=\"/pay\",rule=\"pay\",outcome=\"allowed\"} 2",
        ]);
    }
    assert_eq!(counting.metrics.lock().policies.len(), 1);
}
