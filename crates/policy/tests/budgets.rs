//! Rules that share one budget at different costs.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod matching_support;

use matching_support::{charged, from};
use tollgate_policy::model::{Allowance, Budget, Consistency, CostSource, Grant, Rule};
use tollgate_policy::{CompiledPolicy, Policy, PolicyBuilder, RuleBuilder, budget, counter_changes, rule};

const CLIENT: &str = "203.0.113.9";

fn tokens() -> PolicyBuilder {
    PolicyBuilder::default().budget(budget("tokens").per("client_ip").limit("100/min").limit("1000/h"))
}

fn compiled(policy: PolicyBuilder) -> CompiledPolicy {
    CompiledPolicy::new(&policy.build().unwrap()).unwrap()
}

fn errors(policy: PolicyBuilder) -> Vec<String> {
    let problems = policy.build().unwrap_err().0;
    problems.iter().map(|problem| format!("{} {}", problem.path, problem.code)).collect()
}

#[test]
fn rules_of_a_budget_have_its_key_limit_and_scopes() {
    let policy = tokens().rule(rule("chat").path("/chat").budget("tokens").cost(10)).rule(rule("all").budget("tokens"));
    let checked = policy.clone().build().unwrap();
    for rule in &checked.rules {
        assert_eq!((&rule.key, &rule.allowance), (&checked.budgets[0].key, &checked.budgets[0].allowance));
    }
    let compiled = compiled(policy);
    let scopes: Vec<(&str, u32)> = compiled.quotas().iter().map(|quota| (quota.scope.as_str(), quota.rule)).collect();
    assert_eq!(scopes, [("tokens", 0), ("tokens/1h", 0)]);
    let named = ["chat", "all", "tokens", "other"].map(|name| compiled.counters_named(name));
    assert_eq!(named, [Some(0), Some(0), Some(0), None]);
    assert_eq!((compiled.counters_name(0), compiled.counters_name(1)), ("tokens", "tokens"));
    assert!(!compiled.has_fast_path());
}

#[test]
fn request_charges_a_budget_once_at_the_largest_cost() {
    let policy = tokens()
        .rule(rule("other").budget("tokens"))
        .rule(rule("chat").path("/chat/*").budget("tokens").cost(10))
        .rule(rule("big").path("/chat/big").budget("tokens").cost(10))
        .rule(rule("apart").per("client_ip").limit("5/min"));
    let compiled = compiled(policy);
    let charges = |target: &str| charged(&compiled, &from(CLIENT, "GET", target, &()));
    let ip = CLIENT;
    assert_eq!(charges("/"), [format!("other {ip}"), format!("other {ip}"), format!("apart {ip}")]);
    let chat = [format!("chat {ip} x10"), format!("chat {ip} x10"), format!("apart {ip}")];
    for target in ["/chat/x", "/chat/big", "/chat%2fbig", "/x/../chat//big"] {
        assert_eq!(charges(target), chat, "{target}");
    }
}

#[test]
fn joint_requests_charge_a_budget_once() {
    let policy = tokens()
        .rule(rule("search").path("/search").budget("tokens").cost(2))
        .rule(rule("chat").path("/chat").budget("tokens").cost(10));
    let compiled = compiled(policy);
    let of = |target: &'static str| compiled.match_request(&from(CLIENT, "GET", target, &()));
    for (first, second) in [("/search", "/chat"), ("/chat", "/search")] {
        let mut joined = of(first);
        assert_eq!(joined.join(&of(second)).as_slice(), [0, 1]);
        let charges: Vec<(u32, u64)> = joined.charges.iter().map(|charge| (charge.rule, charge.cost)).collect();
        assert_eq!(charges, [(1, 10), (1, 10)], "{first} {second}");
    }
}

#[test]
fn replaced_rule_of_a_budget_is_not_charged() {
    let built = tokens()
        .rule(rule("large").budget("tokens").cost(10))
        .rule(rule("small").path("/small").budget("tokens").cost(2))
        .build()
        .unwrap();
    let mut policy = Policy::clone(&built);
    policy.rules[1].replaces = vec!["large".to_owned()];
    let compiled = CompiledPolicy::new(&policy.check().unwrap()).unwrap();
    for target in ["/small", "/sm%61ll"] {
        let charges = charged(&compiled, &from(CLIENT, "GET", target, &()));
        let expected = if target == "/small" { "small 203.0.113.9 x2" } else { "large 203.0.113.9 x10" };
        assert_eq!(charges, [expected, expected], "{target}");
    }
}

#[test]
fn members_that_conflict_with_a_budget_are_errors() {
    let with = |rule: RuleBuilder| errors(tokens().rule(rule));
    let chat = || rule("chat").budget("tokens");
    assert_eq!(with(chat().limit("5/min")), ["rules[0].limit choose-one"]);
    assert_eq!(with(chat().per("method")), ["rules[0].key misplaced-member", "rules[0].limit misplaced-member"]);
    assert_eq!(with(chat().shadow()), ["rules[0].shadow misplaced-member"]);
    assert_eq!(with(chat().max_debt(5)), ["rules[0].max_debt misplaced-member"]);
    assert_eq!(with(chat().consistency(Consistency::Exact)), ["rules[0].consistency misplaced-member"]);
    let steps = chat().on_limit(1, std::time::Duration::from_secs(60), None);
    assert_eq!(with(steps), ["rules[0].on_limit misplaced-member"]);
    assert_eq!(with(rule("chat").budget("tokns")), ["rules[0].budget unknown-budget"]);
    assert_eq!(with(rule("tokens").limit("5/min")), ["budgets.tokens duplicate-name"]);
    assert_eq!(errors(tokens().budget(budget("tokens").limit("1/s")).rule(chat())), ["budgets.tokens duplicate-name"]);
    assert_eq!(errors(PolicyBuilder::default().budget(budget("a b").limit("1/s"))), ["budgets.a b bad-name"]);
    let unknown = PolicyBuilder::default().budget(budget("b").per("client_pi").limit("1/s"));
    assert_eq!(errors(unknown), ["budgets.b.key[0] unknown-identity"]);
    assert_eq!(errors(PolicyBuilder::default().budget(budget("b"))), ["budgets.b choose-one"]);
    // A budget of the model that the builder cannot express.
    let permits = tollgate_core::Quota::concurrency(3, None).unwrap();
    let own = Budget {
        name: "b".into(),
        key: vec![],
        allowance: Allowance::Same(Grant::Limited(vec![permits])),
        consistency: None,
    };
    let policy = Policy { budgets: vec![own], ..Policy::default() };
    assert_eq!(policy.check().unwrap_err().0[0].code, "misplaced-member");
}

#[test]
fn cost_above_the_budget_is_an_error() {
    assert_eq!(errors(tokens().rule(rule("chat").budget("tokens").cost(101))), ["rules[0].cost cost-never-fits"]);
}

#[test]
fn counters_are_kept_under_the_name_of_the_budget() {
    let changes = |before: PolicyBuilder, now: PolicyBuilder| -> Vec<String> {
        counter_changes(&compiled(before), &compiled(now)).iter().map(ToString::to_string).collect()
    };
    let own = || PolicyBuilder::default().rule(rule("tokens").per("user").limit("10/min"));
    let shared = |names: &[&str]| {
        let policy = PolicyBuilder::default().budget(budget("tokens").per("user").limit("10/min"));
        names.iter().fold(policy, |policy, name| policy.rule(rule(name).budget("tokens")))
    };
    assert_eq!(changes(own(), shared(&["chat"])), [""; 0]);
    assert_eq!(changes(shared(&["chat"]), shared(&["search", "chat"])), [""; 0]);
    assert_eq!(changes(shared(&["chat", "search"]), own()), [""; 0]);
    let chat = PolicyBuilder::default().rule(rule("chat").per("user").limit("10/min"));
    assert_eq!(
        changes(chat, shared(&["chat"])),
        [
            "budget `tokens` is new and starts with no counts",
            "rule `chat` now charges the budget `tokens`, and its own counts are no longer used"
        ]
    );
}

#[cfg(feature = "yaml")]
#[test]
fn budgets_are_read_from_a_file() {
    let text = "version: 1
identity: { tier: { header: X-Tier, default: free, trusted: true } }
budgets:
  tokens: { key: client_ip, tiers: { free: 10/min, pro: 100/min }, algorithm: fixed-window }
rules:
  - { name: chat, when: { path: /chat }, budget: tokens, cost: 10, message: Enough. }
  - { name: all, budget: tokens }
";
    let loaded = tollgate_policy::parse(text, "p.yaml", None).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(loaded.warnings, []);
    let chat: &Rule = &loaded.policy.rules[0];
    assert_eq!((chat.budget.as_deref(), &chat.cost.source), (Some("tokens"), &CostSource::Fixed(10)));
    assert_eq!((&chat.key, &chat.allowance), (&loaded.policy.budgets[0].key, &loaded.policy.budgets[0].allowance));
    let promise = tollgate_policy::promise::promises(&loaded.policy)[0].to_string();
    assert!(promise.contains("charges the budget tokens: the figures are for all its rules together"), "{promise}");
    for (member, code) in [
        ("key: client_ip", "misplaced-member"),
        ("algorithm: fixed-window", "misplaced-member"),
        ("queue: { size: 3 }", "misplaced-member"),
        ("limit: 5/min", "choose-one"),
        ("concurrency: 5", "choose-one"),
        ("deny: true", "choose-one"),
        ("shadow: true", "misplaced-member"),
        ("on_limit: [ { first: 2, action: warn } ]", "misplaced-member"),
        ("on_limit: [ { after: 20 in 10min, action: block 15min } ]", "misplaced-member"),
        ("overrides: { a: 5/min }", "misplaced-member"),
        ("on_failure: open", "misplaced-member"),
    ] {
        let text = text.replace("budget: tokens, cost: 10", &format!("budget: tokens, {member}"));
        let report = tollgate_policy::parse(&text, "p.yaml", None).unwrap_err();
        let codes: Vec<&str> = report.errors.iter().map(|error| error.code).collect();
        assert_eq!(codes, [code], "{member}: {report}");
    }
}
