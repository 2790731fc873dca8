use tollgate::policy::CheckedPolicy;
use tollgate::policy::parse;
use tollgate::{Limiter, ManualClock, Request, Verdict};

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
    Limiter::with_clock(&policy(text), ManualClock::at(1)).unwrap()
}

struct MetricsFixture {
    limiter: Limiter,
    metrics: RuleMetrics,
}

impl MetricsFixture {
    fn with_policy(text: &str) -> MetricsFixture {
        let (limiter, metrics) = (limiter(text), RuleMetrics::new());
        metrics.prepare_for(&limiter.policy());
        MetricsFixture { limiter, metrics }
    }

    fn check(&self, path: &str, cost: u64) -> Verdict {
        let request = Request { target: path, cost, ..Request::from_peer(None) };
        let verdict = self.limiter.check(&request);
        self.count(&request, &verdict);
        verdict
    }

    fn count(&self, request: &Request<'_>, verdict: &Verdict) {
        self.metrics
            .count(DecidedRequest { front_end: FrontEnd::Http, request, verdict, deciding: verdict.deciding() }, 1);
    }

    fn replace(&self, text: &str) {
        self.limiter.set_policy(&policy(text)).unwrap();
        self.metrics.prepare_for(&self.limiter.policy());
    }

    fn text(&self) -> String {
        let mut text = String::new();
        self.metrics.totals().write(&mut Exposition::append_to(&mut text));
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
fn rules_are_counted_even_if_another_rule_decides() {
    let fixture = MetricsFixture::with_policy(POLICY);
    for path in ["/pay", "/pay", "/pay", "/other"] {
        fixture.check(path, 1);
    }
    fixture.assert_lines(&[
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
fn endpoints_are_patterns_and_never_paths() {
    let fixture = MetricsFixture::with_policy(POLICY);
    fixture.check("/pay/17", 1);
    fixture.check("/pay/18", 1);
    fixture
        .assert_lines(&["tollgate_endpoint_decisions_total{endpoint=\"/pay/*\",rule=\"pay\",outcome=\"allowed\"} 2"]);
    assert!(!fixture.text().contains("/pay/1"));
}

#[test]
fn headroom_is_counted_for_every_matched_rule() {
    let fixture = MetricsFixture::with_policy(POLICY);
    fixture.check("/pay/17", 1);
    fixture.check("/pay/17", 1);
    fixture.check("/pay/17", 1);
    // Three quarters of `all` remained, then half of it; the third request was not charged.
    fixture.assert_lines(&[
        "tollgate_headroom_ratio_bucket{rule=\"all\",le=\"0.25\"} 0",
        "tollgate_headroom_ratio_bucket{rule=\"all\",le=\"0.5\"} 2",
        "tollgate_headroom_ratio_bucket{rule=\"all\",le=\"0.75\"} 3",
        "tollgate_headroom_ratio_bucket{rule=\"all\",le=\"+Inf\"} 3",
        "tollgate_headroom_ratio_sum{rule=\"all\"} 1.750000",
        "tollgate_headroom_ratio_count{rule=\"all\"} 3",
        "tollgate_headroom_ratio_bucket{rule=\"pay\",le=\"0\"} 2",
        "tollgate_headroom_ratio_sum{rule=\"pay\"} 0.500000",
    ]);
    assert!(!fixture.text().contains("tollgate_headroom_ratio_count{rule=\"watched\"}"));
}

#[test]
fn peeks_are_counted_separately() {
    let fixture = MetricsFixture::with_policy(POLICY);
    fixture.check("/pay", 0);
    fixture.assert_lines(&[&decided("pay", "allow", 0)]);
    let text = fixture.text();
    assert_eq!(text.matches("outcome=\"peek\"").count(), 1);
    assert!(!text.contains("tollgate_headroom_ratio_count{") && !text.contains("endpoint=\""));
}

#[test]
fn warnings_are_counted_for_their_rule() {
    let warning_policy = "version: 1
rules: [ { name: login, limit: 1/min, on_limit: [ { first: 1, action: warn }, { then: reject } ] } ]
";
    let fixture = MetricsFixture::with_policy(warning_policy);
    (0..3).for_each(|_| drop(fixture.check("/login", 1)));
    fixture.assert_lines(&[
        &decided("login", "allow", 1),
        &decided("login", "warn", 1),
        &decided("login", "reject", 1),
        "tollgate_rule_warnings_total{rule=\"login\"} 1",
        "tollgate_rule_refusals_total{rule=\"login\",mode=\"enforce\"} 2",
    ]);
}

#[test]
fn counts_continue_under_another_policy() {
    let fixture = MetricsFixture::with_policy(POLICY);
    fixture.check("/pay", 1);
    // The old policy is still referenced.
    let old = fixture.limiter.policy();
    fixture.replace("version: 1\nrules: [ { name: pay, limit: 5/min }, { name: all, limit: 9/min } ]\n");
    fixture.check("/pay", 1);
    for _ in 0..2 {
        fixture.assert_lines(&[&decided("pay", "allow", 2), &decided("all", "allow", 0)]);
    }
    assert_eq!(fixture.metrics.lock().policies.len(), 2);
    drop(old);
    for _ in 0..2 {
        fixture.assert_lines(&[
            &decided("pay", "allow", 2),
            &decided("watched", "allow", 0),
            "tollgate_endpoint_decisions_total{endpoint=\"/pay\",rule=\"pay\",outcome=\"allowed\"} 1",
            "tollgate_endpoint_decisions_total{endpoint=\"other\",rule=\"pay\",outcome=\"allowed\"} 1",
        ]);
    }
    assert_eq!(fixture.metrics.lock().policies.len(), 1);
}

#[test]
fn decisions_made_before_a_reload_are_counted() {
    let fixture = MetricsFixture::with_policy(POLICY);
    let request = Request { target: "/pay", ..Request::from_peer(None) };
    let verdicts = [fixture.limiter.check(&request), fixture.limiter.check(&request)];
    fixture.replace("version: 1\nrules: [ { name: new, when: { path: /pay }, limit: 1/min } ]\n");
    for verdict in &verdicts {
        fixture.count(&request, verdict);
    }
    // The metrics were not prepared for this policy.
    fixture.limiter.set_policy(&policy("version: 1\nrules: [ { name: newer, limit: 1/min } ]\n")).unwrap();
    fixture.check("/pay", 1);
    drop(verdicts);
    for _ in 0..2 {
        fixture.assert_lines(&[
            &decided("pay", "allow", 2),
            &decided("new", "allow", 0),
            &decided("newer", "allow", 1),
            "tollgate_headroom_ratio_count{rule=\"pay\"} 2",
            "tollgate_rule_refusals_total{rule=\"watched\",mode=\"shadow\"} 1",
            "tollgate_endpoint_decisions_total{endpoint=\"/pay\",rule=\"pay\",outcome=\"allowed\"} 2",
        ]);
    }
    assert_eq!(fixture.metrics.lock().policies.len(), 1);
}
