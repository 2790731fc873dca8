use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tollgate_core::{AlgorithmKind, Decision};
use tollgate_store::{Charge, Limit, Mode, Outcome, Receipt, Refusals, Source, Store};

use super::plan::{Plan, Rule, key_bytes};
use super::seen::Seen;
use crate::sim::world::{SharedWorld, locked};
use crate::store::{RedisStore, SeenReceipt, key_name, seen_receipt};

/// Somebody who makes requests and checks what comes of them.
pub(in crate::sim) struct Caller {
    pub(in crate::sim) world: SharedWorld,
    pub(in crate::sim) stores: Arc<Vec<RedisStore>>,
    pub(in crate::sim) limits: Arc<Vec<Vec<Limit>>>,
    pub(in crate::sim) rules: Arc<Vec<Rule>>,
    pub(in crate::sim) deadline: Duration,
    pub(in crate::sim) is_quiet: bool,
    pub(in crate::sim) seen: Arc<Mutex<Seen>>,
}

impl Caller {
    pub(in crate::sim) async fn request(self, plan: Plan) {
        let keys: Vec<Vec<u8>> = plan.charges.iter().map(|charge| key_bytes(charge.1)).collect();
        let limits = &self.limits[plan.instance];
        let charges: Vec<Charge<'_>> = plan
            .charges
            .iter()
            .zip(&keys)
            .map(|((rule, _, cost, mode), key)| Charge {
                limit: &limits[*rule],
                key: key.as_slice(),
                cost: *cost,
                mode: *mode,
                receipt: true,
            })
            .collect();
        for asked in &charges {
            let (_, target) = self.stores[plan.instance].inner.target(asked.limit, asked.key);
            locked(&self.world).books.know(&target.key);
        }
        let began = Instant::now();
        let decided = self.stores[plan.instance].decide(&charges);
        let outcome = match plan.gives_up {
            Some(patience) => match timeout(patience, decided).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    self.seen.lock().unwrap().coverage.dropped += 1;
                    return;
                }
            },
            None => decided.await,
        };
        // Timers of the runtime are a millisecond apart.
        if began.elapsed() > self.deadline + Duration::from_millis(2) {
            self.violate(format!("a check took {:?}", began.elapsed()));
        }
        self.count(&outcome);
        if outcome.decisions.len() != charges.len() {
            return self.violate(format!("{} charges, {} answers", charges.len(), outcome.decisions.len()));
        }
        if self.is_quiet && outcome.source == Source::Fallback {
            self.violate("a fallback without any trouble".into());
        }
        if !outcome.passed {
            return self.check_refusal(&plan, &charges, &outcome);
        }
        self.check_passed(&plan, &charges, &outcome);
        self.afterwards(&plan, outcome.receipts).await;
    }

    pub(in crate::sim) fn violate(&self, what: String) {
        locked(&self.world).books.violate(what);
    }

    fn count(&self, outcome: &Outcome) {
        let coverage = &mut self.seen.lock().unwrap().coverage;
        coverage.passed += u64::from(outcome.passed);
        coverage.refused += u64::from(!outcome.passed);
        coverage.cached += u64::from(outcome.source == Source::Cached);
        coverage.fallbacks += u64::from(outcome.source == Source::Fallback);
    }

    fn check_refusal(&self, plan: &Plan, charges: &[Charge<'_>], outcome: &Outcome) {
        if !outcome.receipts.is_empty() {
            self.violate("a refused request has receipts".into());
        }
        let binding = |asked: &Charge<'_>| matches!(asked.mode, Mode::Enforce | Mode::Guard);
        let refuses =
            |at: &usize| outcome.asked.contains(*at) && binding(&charges[*at]) && !outcome.decisions[*at].is_allowed();
        let refusing: Vec<usize> = (0..charges.len()).filter(refuses).collect();
        if refusing.is_empty() {
            self.violate(format!("refused by nobody: {plan:?} {outcome:?}"));
        }
        if outcome.source != Source::Cached {
            return;
        }
        let refusals = |at: usize| self.rules[plan.charges[at].0].options.refusals;
        let is_blocked = refusing.iter().any(|at| refusals(*at) == Refusals::Final);
        if !is_blocked && (0..charges.len()).any(|at| matches!(refusals(at), Refusals::Counted | Refusals::Guarded)) {
            return self.violate(format!("remembered what must be counted: {plan:?} {outcome:?}"));
        }
        self.check_remembered(plan, charges, outcome);
    }

    /// A remembered refusal says of each charge what the server would say, and no time that is too short.
    fn check_remembered(&self, plan: &Plan, charges: &[Charge<'_>], outcome: &Outcome) {
        for (at, asked) in charges.iter().enumerate() {
            let (slot, target) = self.stores[plan.instance].inner.target(asked.limit, asked.key);
            let within = match self.rules[plan.charges[at].0].options.refusals {
                Refusals::Counted | Refusals::Guarded | Refusals::Brief => Duration::from_millis(1_020),
                Refusals::Final => Duration::from_secs(3_600),
            };
            let mut world = locked(&self.world);
            let is_stale = world.books.may_be_stale(plan.instance, &target.key, within);
            let truth = world.stands(slot, &target, asked.cost);
            let is_true = outcome.asked.contains(at) && says(&outcome.decisions[at], &truth, self.deadline);
            if !is_stale && !is_true {
                let what = format!("remembered what is not so: {plan:?} {outcome:?}, the truth for {at} is {truth:?}");
                world.books.violate(what);
            }
        }
    }

    fn check_passed(&self, plan: &Plan, charges: &[Charge<'_>], outcome: &Outcome) {
        for (at, asked) in charges.iter().enumerate() {
            let receipt = outcome.receipts.iter().find(|(position, _)| *position == at);
            if asked.mode == Mode::Enforce && asked.cost > 0 && receipt.is_none() {
                self.violate(format!("passed without a charge: {plan:?} {outcome:?}"));
            }
            if let Some((_, receipt)) = receipt {
                self.check_receipt(plan, at, receipt, &outcome.decisions[at]);
            }
        }
    }

    fn check_receipt(&self, plan: &Plan, at: usize, receipt: &Receipt, decision: &Decision) {
        let (rule, _, cost, mode) = plan.charges[at];
        let key = key_name(receipt);
        let mut world = locked(&self.world);
        let mut seen = self.seen.lock().unwrap();
        match seen_receipt(receipt) {
            SeenReceipt::Server(charged) => {
                world.books.claimed(plan.instance, &key, &charged, &in_microseconds(*decision));
                let admitted = seen.admitted.entry(key.clone()).or_insert((rule, Vec::new()));
                admitted.1.push((charged.at, charged.cost));
                if self.rules[rule].quota.kind() == AlgorithmKind::Concurrency {
                    if plan.charges.len() == 1 {
                        let asked =
                            (plan.instance, key.clone(), cost, matches!(mode, Mode::Shadow | Mode::ShadowJoined));
                        seen.order.entry(asked).or_default().push((plan.arrival, charged.mark));
                    }
                    let held = seen.held.entry(key.clone()).or_default();
                    held.push((plan.instance, charged));
                    let now = world.now_us();
                    let in_force = held.iter().filter(|(holder, held)| world.books.lease(*holder, &key, held, now).0);
                    let permits: u64 = in_force.map(|(_, held)| held.cost).sum();
                    if permits > self.rules[rule].quota.amount() && !world.books.lost_something(&key) {
                        world.books.violate(format!("{permits} permits are out: {plan:?}"));
                    }
                }
            }
            SeenReceipt::Here => {
                world.books.passed_uncounted(plan.instance, &key, cost);
                seen.counted_here.entry((plan.instance, key)).or_insert((rule, 0)).1 += cost as i64;
            }
            SeenReceipt::Nowhere => world.books.passed_uncounted(plan.instance, &key, cost),
        }
    }
}

/// Whether an answer from memory, in nanoseconds, says what is true, in microseconds. How long the answer was on its way
/// that is remembered is not known, so times may be longer by that much.
fn says(remembered: &Decision, truth: &Decision, longest_way: Duration) -> bool {
    let is_time =
        |remembered: u64, truth: u64| (truth..=truth + longest_way.as_micros() as u64).contains(&(remembered / 1_000));
    let is_wait = match (remembered.retry_after(), truth.retry_after()) {
        (Some(remembered), Some(truth)) => is_time(remembered, truth),
        (remembered, truth) => remembered == truth,
    };
    std::mem::discriminant(&remembered.verdict) == std::mem::discriminant(&truth.verdict)
        && (remembered.limit, remembered.remaining) == (truth.limit, truth.remaining)
        && is_wait
        && is_time(remembered.next_after, truth.next_after)
        && is_time(remembered.reset_after, truth.reset_after)
}

fn in_microseconds(decision: Decision) -> Decision {
    use tollgate_core::Verdict;
    let verdict = match decision.verdict {
        Verdict::Allowed { delay } => Verdict::Allowed { delay: delay / 1_000 },
        other => other,
    };
    let Decision { limit, remaining, next_after, reset_after, .. } = decision;
    Decision { verdict, limit, remaining, next_after: next_after / 1_000, reset_after: reset_after / 1_000 }
}
