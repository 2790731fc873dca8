//! A verdict keeps the policy that it was decided by, and nothing keeps it longer than that.

use std::sync::Arc;

use tollgate::{CheckedPolicy, Limiter, PolicyBuilder, Verdict, rule};

use crate::support::{any, clock, small};

fn policy(name: &str) -> CheckedPolicy {
    PolicyBuilder::default().rule(rule(name).limit("1000000/h")).with(small).build().unwrap()
}

fn limiter(name: &str) -> Limiter {
    Limiter::in_memory(&policy(name), clock()).unwrap()
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
