//! A verdict keeps the policy that it was decided by, and nothing keeps it longer than that.

use std::sync::Arc;

use tollgate::policy::{CheckedPolicy, PolicyBuilder};
use tollgate::{Limiter, Request, Verdict, rule};

use crate::support::{any, clock, small};

fn policy(name: &str) -> CheckedPolicy {
    PolicyBuilder::default().rule(rule(name).limit("1000000/h")).with(small).build().unwrap()
}

fn limiter(name: &str) -> Limiter {
    Limiter::with_clock(&policy(name), clock()).unwrap()
}

#[test]
fn verdict_names_its_rule_after_a_reload() {
    let limiter = limiter("before");
    let verdict = limiter.check(&any());
    let clone = verdict.clone();
    limiter.set_policy(&policy("after")).unwrap();
    assert_eq!(limiter.check(&any()).rule(), Some("after"));
    // A clone that is made after the reload is of the old policy too.
    assert_eq!(
        (verdict.rule(), clone.rule(), verdict.clone().rule()),
        (Some("before"), Some("before"), Some("before"))
    );
}

#[test]
fn replaced_policy_is_freed_once_its_verdicts_are_dropped() {
    let limiter = limiter("before");
    let before = Arc::downgrade(&limiter.policy());
    let verdicts: Vec<Verdict> = (0..100).map(|_| limiter.check(&any())).collect();
    limiter.set_policy(&policy("after")).unwrap();
    assert!(limiter.check(&any()).is_allowed());
    assert!(before.upgrade().is_some());
    drop(verdicts);
    assert_eq!(before.strong_count(), 0);
}

/// What a verdict is made of is used again by the next one on its thread.
#[test]
fn reused_verdict_has_no_data_of_the_previous_one() {
    let yaml = "version: 1
identity: { user: { header: X-User, trusted: true } }
deny: { user: mallory }
rules:
  - { name: queue, when: { path: /queue }, key: user, limit: 10/s, algorithm: leaky-bucket }
  - { name: strict, when: { path: /strict }, key: user, limit: 1/h,
      on_limit: [ { first: 1, action: warn }, { then: reject }, { after: 2 in 10min, action: block 15min } ] }
  - { name: no, when: { path: /no }, deny: true }
  - { name: wide, when: { path: \"/wide/*\" }, key: user, limit: [1/s, 1/min, 1/h, 1/day, 1 per 2h, 1 per 3h] }
  - { name: plain, when: { path: /plain }, key: user, limit: 1000/h }
";
    let policy = tollgate::policy::parse(yaml, "policy", None).unwrap_or_else(|report| panic!("{report}"));
    let limiter = Limiter::with_clock(&policy.policy, clock()).unwrap();
    let ask = |user: &str, path: &str| limiter.check(&Request { target: path, headers: &[("x-user", user)], ..any() });
    let before = format!("{:?}", ask("alice", "/plain"));
    let others = [("mallory", "/plain"), ("bob", "/no"), ("bob", "/none"), ("bob", "/wide/1"), ("bob", "/wide/2")];
    for (user, path) in others {
        drop(ask(user, path));
        let plain = ask(&format!("after-{user}{path}"), "/plain");
        let endpoint = plain.endpoint().map(|at| limiter.policy().endpoints().nth(at).unwrap().into_owned());
        assert_eq!(endpoint.as_deref(), Some("/plain"));
        assert_eq!(format!("{plain:?}"), before, "after {path}");
        assert_eq!((plain.warned_by().count(), plain.denials().count()), (0, 0));
        assert_eq!((plain.is_unlimited(), plain.is_unauthorized(), plain.is_store_failure()), (false, false, false));
    }
    for _ in 0..4 {
        drop(ask("carol", "/strict"));
        assert_eq!(format!("{:?}", ask("dave", "/plain").action()), "Allow");
    }
}

#[test]
fn limiters_that_share_a_slot_of_a_thread_keep_their_own_policies() {
    let names: Vec<String> = (0..30).map(|at| format!("rule-{at}")).collect();
    let limiters: Vec<Limiter> = names.iter().map(|name| limiter(name)).collect();
    let mut kept: Vec<(usize, Verdict)> = Vec::new();
    for round in 0..5 {
        for (at, limiter) in limiters.iter().enumerate() {
            let verdict = limiter.check(&any());
            assert_eq!(verdict.rule(), Some(names[at].as_str()), "round {round}");
            kept.push((at, verdict));
        }
    }
    assert!(kept.iter().all(|(at, verdict)| verdict.rule() == Some(names[*at].as_str())));
}

#[test]
fn verdicts_may_be_dropped_on_other_threads_while_policies_change() {
    let limiter = limiter("rule-0");
    let (send, receive) = std::sync::mpsc::channel::<(usize, Verdict)>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for (at, verdict) in receive {
                let name = verdict.rule().unwrap().to_owned();
                // The policy that decided is the one of its round, or one that came meanwhile.
                assert!(name["rule-".len()..].parse::<usize>().unwrap() >= at, "{name} in round {at}");
                let clone = verdict.clone();
                drop(verdict);
                assert_eq!(clone.rule(), Some(name.as_str()));
            }
        });
        for round in 1..=50 {
            let sends = send.clone();
            let limiter = &limiter;
            scope.spawn(move || (0..200).for_each(|_| sends.send((round - 1, limiter.check(&any()))).unwrap()));
            limiter.set_policy(&policy(&format!("rule-{round}"))).unwrap();
            (0..20).for_each(|_| send.send((round, limiter.check(&any()))).unwrap());
        }
        drop(send);
    });
    assert_eq!(limiter.check(&any()).rule(), Some("rule-50"));
}
