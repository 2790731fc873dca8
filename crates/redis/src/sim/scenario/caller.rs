use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tollgate_core::{AlgorithmKind, Decision};
use tollgate_store::{Charge, ChargeMode, ChargeReceipt, Limit, Outcome, Refusals, Source, Store};

use super::observations::Observations;
use super::plan::{Plan, SimRule, key_bytes};
use crate::sim::world::{SharedWorld, locked};
use crate::store::{ReceiptKind, RedisStore, key_name, receipt_kind};

/// A caller that makes requests and checks their outcomes.
pub(in crate::sim) struct Caller {
    pub(in crate::sim) world: SharedWorld,
    pub(in crate::sim) stores: Arc<Vec<RedisStore>>,
    pub(in crate::sim) limits: Arc<Vec<Vec<Limit>>>,
    pub(in crate::sim) rules: Arc<Vec<SimRule>>,
    pub(in crate::sim) deadline: Duration,
    pub(in crate::sim) is_quiet: bool,
    pub(in crate::sim) observations: Arc<Mutex<Observations>>,
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
        for charge in &charges {
            let (_, target) = self.stores[plan.instance].inner.target(charge.limit, charge.key);
            locked(&self.world).ledger.track_key(&target.key);
        }
        let started = Instant::now();
        let decided = self.stores[plan.instance].check_all(&charges);
        let outcome = match plan.drops_after {
            Some(drops_after) => match timeout(drops_after, decided).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    self.observations.lock().unwrap().coverage.dropped += 1;
                    return;
                }
            },
            None => decided.await,
        };
        // Timers of the runtime have a resolution of a millisecond.
        if started.elapsed() > self.deadline + Duration::from_millis(2) {
            self.violate(format!("a check took {:?}", started.elapsed()));
        }
        self.count(&outcome);
        if outcome.decisions.len() != charges.len() {
            return self.violate(format!("{} charges, {} answers", charges.len(), outcome.decisions.len()));
        }
        if self.is_quiet && outcome.source == Source::Fallback {
            self.violate("a fallback without any failure".into());
        }
        if !outcome.passed {
            return self.check_refusal(&plan, &charges, &outcome);
        }
        self.check_passed(&plan, &charges, &outcome);
        self.follow_up(&plan, outcome.receipts).await;
    }

    pub(in crate::sim) fn violate(&self, what: String) {
        locked(&self.world).ledger.violate(what);
    }

    fn count(&self, outcome: &Outcome) {
        let coverage = &mut self.observations.lock().unwrap().coverage;
        coverage.passed += u64::from(outcome.passed);
        coverage.refused += u64::from(!outcome.passed);
        coverage.cached += u64::from(outcome.source == Source::Cached);
        coverage.fallbacks += u64::from(outcome.source == Source::Fallback);
    }

    fn check_refusal(&self, plan: &Plan, charges: &[Charge<'_>], outcome: &Outcome) {
        if !outcome.receipts.is_empty() {
            self.violate("a refused request has receipts".into());
        }
        let binding = |charge: &Charge<'_>| matches!(charge.mode, ChargeMode::Enforce | ChargeMode::Guard);
        let refuses = |at: &usize| {
            outcome.decided.contains(*at) && binding(&charges[*at]) && !outcome.decisions[*at].is_allowed()
        };
        let refusing: Vec<usize> = (0..charges.len()).filter(refuses).collect();
        if refusing.is_empty() {
            self.violate(format!("refused without a refusing charge: {plan:?} {outcome:?}"));
        }
        if outcome.source != Source::Cached {
            return;
        }
        let refusals = |at: usize| self.rules[plan.charges[at].0].options.refusals;
        let is_blocked = refusing.iter().any(|at| refusals(*at) == Refusals::Final);
        if !is_blocked && (0..charges.len()).any(|at| matches!(refusals(at), Refusals::Counted | Refusals::Guarded)) {
            return self.violate(format!("a cached refusal where violations must be counted: {plan:?} {outcome:?}"));
        }
        self.check_cached_refusal(plan, charges, outcome);
    }

    /// A cached refusal must have the decisions of the server for each charge, and no time that is too short.
    fn check_cached_refusal(&self, plan: &Plan, charges: &[Charge<'_>], outcome: &Outcome) {
        for (at, charge) in charges.iter().enumerate() {
            let (slot, target) = self.stores[plan.instance].inner.target(charge.limit, charge.key);
            let within = match self.rules[plan.charges[at].0].options.refusals {
                Refusals::Counted | Refusals::Guarded | Refusals::Brief => Duration::from_millis(1_020),
                Refusals::Final => Duration::from_secs(3_600),
            };
            let mut world = locked(&self.world);
            let is_stale = world.ledger.may_be_stale(plan.instance, &target.key, within);
            let truth = world.peek(slot, &target, charge.cost);
            let is_true = outcome.decided.contains(at) && matches_truth(&outcome.decisions[at], &truth, self.deadline);
            if !is_stale && !is_true {
                let what = format!("wrong cached decision: {plan:?} {outcome:?}, the truth for {at} is {truth:?}");
                world.ledger.violate(what);
            }
        }
    }

    fn check_passed(&self, plan: &Plan, charges: &[Charge<'_>], outcome: &Outcome) {
        for (at, charge) in charges.iter().enumerate() {
            let receipt = outcome.receipts.iter().find(|(position, _)| *position == at);
            if charge.mode == ChargeMode::Enforce && charge.cost > 0 && receipt.is_none() {
                self.violate(format!("passed without a charge: {plan:?} {outcome:?}"));
            }
            if let Some((_, receipt)) = receipt {
                self.check_receipt(plan, at, receipt, &outcome.decisions[at]);
            }
        }
    }

    fn check_receipt(&self, plan: &Plan, at: usize, receipt: &ChargeReceipt, decision: &Decision) {
        let (rule, _, cost, mode) = plan.charges[at];
        let key = key_name(receipt);
        let mut world = locked(&self.world);
        let mut observations = self.observations.lock().unwrap();
        match receipt_kind(receipt) {
            ReceiptKind::Server(charged) => {
                world.ledger.record_delivery(plan.instance, &key, &charged, &in_microseconds(*decision));
                let admitted = observations.admitted.entry(key.clone()).or_insert((rule, Vec::new()));
                admitted.1.push((charged.at, charged.cost));
                if self.rules[rule].quota.kind() == AlgorithmKind::Concurrency {
                    if plan.charges.len() == 1 {
                        let request = (
                            plan.instance,
                            key.clone(),
                            cost,
                            matches!(mode, ChargeMode::Shadow | ChargeMode::ShadowJoined),
                        );
                        observations.order.entry(request).or_default().push((plan.arrival, charged.mark));
                    }
                    let held = observations.held.entry(key.clone()).or_default();
                    held.push((plan.instance, charged));
                    let now = world.now_us();
                    let in_force = held.iter().filter(|(holder, held)| world.ledger.lease(*holder, &key, held, now).0);
                    let permits: u64 = in_force.map(|(_, held)| held.cost).sum();
                    if permits > self.rules[rule].quota.amount() && !world.ledger.lost_data(&key) {
                        world.ledger.violate(format!("{permits} permits are held: {plan:?}"));
                    }
                }
            }
            ReceiptKind::Fallback => {
                world.ledger.record_fallback_usage(plan.instance, &key, cost);
                observations.counted_locally.entry((plan.instance, key)).or_insert((rule, 0)).1 += cost as i64;
            }
            ReceiptKind::FailOpen => world.ledger.record_fallback_usage(plan.instance, &key, cost),
            ReceiptKind::Lease => world.ledger.violate(format!("a lease without a limit that is leased: {plan:?}")),
        }
    }
}

/// Returns whether a cached decision, in nanoseconds, matches the true one, in microseconds. The round trip of the
/// cached answer is unknown, so times may be longer by that much.
fn matches_truth(cached: &Decision, truth: &Decision, longest_way: Duration) -> bool {
    let is_time =
        |cached: u64, truth: u64| (truth..=truth + longest_way.as_micros() as u64).contains(&(cached / 1_000));
    let is_wait = match (cached.retry_after(), truth.retry_after()) {
        (Some(cached), Some(truth)) => is_time(cached, truth),
        (cached, truth) => cached == truth,
    };
    std::mem::discriminant(&cached.verdict) == std::mem::discriminant(&truth.verdict)
        && (cached.limit, cached.remaining) == (truth.limit, truth.remaining)
        && is_wait
        && is_time(cached.next_after, truth.next_after)
        && is_time(cached.reset_after, truth.reset_after)
}

fn in_microseconds(decision: Decision) -> Decision {
    use tollgate_core::ChargeVerdict;
    let verdict = match decision.verdict {
        ChargeVerdict::Allowed { delay } => ChargeVerdict::Allowed { delay: delay / 1_000 },
        other => other,
    };
    let Decision { limit, remaining, next_after, reset_after, .. } = decision;
    Decision { verdict, limit, remaining, next_after: next_after / 1_000, reset_after: reset_after / 1_000 }
}
