//! A store with less capacity than keys. It must count its evictions.

use std::collections::HashMap;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use tollgate_core::{AlgorithmKind, ChargeVerdict, Decision, Quota, max_admitted};
use tollgate_store::{Capacity, ChargeReceipt, Limit, ManualClock, MemoryOptions, MemoryStore, WhenFull};

use crate::decode;

const START_NS: u64 = 1 << 60;
/// The number of a key's latest admissions that are added up.
const ADMISSIONS_MAX: usize = 48;

pub(crate) struct Tiny {
    store: MemoryStore,
    clock: ManualClock,
    now: u64,
    when_full: WhenFull,
    most_bytes: usize,
    limits: Vec<Limit>,
    evictions: u64,
    /// The admissions that were not refunded, by limit and key: the time and the cost.
    admitted: HashMap<LimitAndKey, Vec<(u64, u64)>>,
    /// The admissions of this step, which may have evicted a key.
    just_admitted: Vec<(LimitAndKey, u64)>,
    held: Vec<(LimitAndKey, u64, ChargeReceipt)>,
}

type LimitAndKey = (usize, u64);

impl Tiny {
    pub(crate) fn new(bytes: &mut Unstructured<'_>) -> Result<Tiny> {
        let when_full = if bytes.arbitrary()? { WhenFull::RefuseNew } else { WhenFull::EvictLeastUsed };
        let (capacity, most_bytes) = match bytes.int_in_range(0..=8_usize)? {
            0 => (Capacity::Bytes(64 << 10), 64 << 10),
            // At least 64 slots for each of four kinds of state, and 1 KiB of heap per key.
            entries => (Capacity::Entries(entries), 48 << 10),
        };
        let clock = ManualClock::at(START_NS);
        let store = MemoryStore::with(MemoryOptions { capacity, when_full }, clock.clone()).unwrap();
        let limits = (0..bytes.int_in_range(1..=3)?)
            .map(|number: u8| Ok(store.limit(&number.to_string(), decode::quota(bytes)?).unwrap()))
            .collect::<Result<Vec<_>>>()?;
        Ok(Tiny {
            store,
            clock,
            now: START_NS,
            when_full,
            most_bytes,
            limits,
            evictions: 0,
            admitted: HashMap::new(),
            just_admitted: Vec::new(),
            held: Vec::new(),
        })
    }

    pub(crate) fn step(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        match bytes.int_in_range(0..=7_u8)? {
            0 => self.advance(decode::span_ns(bytes)?),
            1 => self.check_many(self.limit(bytes)?, bytes.arbitrary::<u8>()?.into()),
            2 => self.refund(bytes.arbitrary::<u8>()?.into()),
            3 => {
                let target = self.limit_and_key(bytes)?;
                let decision = self.store.peek(&self.limits[target.0], &target.1);
                assert!(decision.is_allowed(), "a peek needs no capacity");
            }
            4 => {
                let target = self.limit_and_key(bytes)?;
                self.check_with_receipt(target, decode::cost(bytes)?);
            }
            _ => {
                let target = self.limit_and_key(bytes)?;
                self.check(target, decode::cost(bytes)?);
            }
        }
        self.verify_bounds();
        Ok(())
    }

    /// Adds up the admissions, unless a key was evicted, which then starts with a full quota.
    fn verify_bounds(&mut self) {
        let stats = self.store.stats();
        assert!(stats.bytes <= self.most_bytes, "{stats:?}");
        assert!(self.when_full == WhenFull::EvictLeastUsed || stats.evictions == 0, "{stats:?}");
        if stats.evictions != self.evictions {
            self.evictions = stats.evictions;
            // Held permits are never evicted.
            let is_kept = |target: &LimitAndKey| self.limits[target.0].quota().kind() == AlgorithmKind::Concurrency;
            self.admitted.retain(|target, _| is_kept(target));
            self.just_admitted.retain(|(target, _)| is_kept(target));
        }
        for (target, cost) in std::mem::take(&mut self.just_admitted) {
            self.admit(target, cost);
        }
    }

    fn advance(&mut self, ns: u64) {
        self.now += ns;
        self.clock.set(self.now);
    }

    /// Checks distinct keys, to fill the table.
    fn check_many(&mut self, limit: usize, keys: u64) {
        for key in 0..keys {
            self.check((limit, key), 1);
        }
    }

    fn check(&mut self, target: LimitAndKey, cost: u64) {
        let decision = self.store.check(&self.limits[target.0], &target.1, cost);
        self.assert_has_capacity(target, &decision);
        if decision.is_allowed() && cost > 0 {
            self.just_admitted.push((target, cost));
        }
    }

    fn check_with_receipt(&mut self, target: LimitAndKey, cost: u64) {
        let (decision, receipt) = self.store.check_with_receipt(&self.limits[target.0], &target.1, cost);
        self.assert_has_capacity(target, &decision);
        if let Some(receipt) = receipt {
            self.just_admitted.push((target, cost));
            self.held.push((target, self.now, receipt));
        }
    }

    fn assert_has_capacity(&self, target: LimitAndKey, decision: &Decision) {
        let may_be_full = self.when_full == WhenFull::RefuseNew || self.kind(target) == AlgorithmKind::Concurrency;
        assert!(may_be_full || decision.verdict != ChargeVerdict::Unavailable, "{:?}", self.quota(target));
    }

    fn admit(&mut self, target: LimitAndKey, cost: u64) {
        let (now, quota) = (self.now, *self.quota(target));
        let admitted = self.admitted.entry(target).or_default();
        admitted.push((now, cost));
        if admitted.len() > ADMISSIONS_MAX {
            admitted.remove(0);
        }
        let mut sum = 0;
        for (at, cost) in admitted.iter().rev() {
            sum += cost;
            if let Some(most) = most_in(&quota, now - at) {
                assert!(sum <= most, "{sum} of {most} since {at}, now {now}: {quota:?}");
            }
        }
    }

    fn refund(&mut self, number: usize) {
        let Some(at) = number.checked_rem(self.held.len()) else { return };
        let (target, charged_at, receipt) = self.held.swap_remove(at);
        if let Some(admitted) = self.admitted.get_mut(&target)
            && let Some(at) = admitted.iter().position(|entry| *entry == (charged_at, receipt.cost()))
        {
            admitted.remove(at);
        }
        self.store.refund(receipt);
    }

    fn quota(&self, target: LimitAndKey) -> &Quota {
        self.limits[target.0].quota()
    }

    fn kind(&self, target: LimitAndKey) -> AlgorithmKind {
        self.quota(target).kind()
    }

    fn limit(&self, bytes: &mut Unstructured<'_>) -> Result<usize> {
        bytes.choose_index(self.limits.len())
    }

    fn limit_and_key(&self, bytes: &mut Unstructured<'_>) -> Result<LimitAndKey> {
        Ok((self.limit(bytes)?, bytes.arbitrary::<u8>()?.into()))
    }
}

/// Returns the largest cost that may be admitted within a span that begins and ends with admissions this far apart.
fn most_in(quota: &Quota, apart_ns: u64) -> Option<u64> {
    match quota.kind() {
        // The bound of a queue is for departures.
        AlgorithmKind::LeakyQueue => None,
        // A permit is held until its lease ends.
        AlgorithmKind::Concurrency => (apart_ns < quota.period_ns()).then_some(quota.amount()),
        _ => max_admitted(quota, apart_ns + 1),
    }
}
