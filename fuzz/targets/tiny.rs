//! A store with less room than there are keys. What it forgets it must count.

use std::collections::HashMap;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use tollgate_core::{AlgorithmKind, Decision, Quota, Verdict, most_admitted};
use tollgate_store::{Capacity, Limit, ManualClock, MemoryOptions, MemoryStore, Receipt, WhenFull};

use crate::decode;

const START_NS: u64 = 1 << 60;
/// How far back a key's admissions are added up.
const REMEMBERED: usize = 48;

pub(crate) struct Tiny {
    store: MemoryStore,
    clock: ManualClock,
    now: u64,
    when_full: WhenFull,
    most_bytes: usize,
    limits: Vec<Limit>,
    evictions: u64,
    /// By limit and key: when, and how much, as far as it was not given back.
    admitted: HashMap<Who, Vec<(u64, u64)>>,
    /// Admitted in this step, which may have evicted somebody.
    just_admitted: Vec<(Who, u64)>,
    held: Vec<(Who, u64, Receipt)>,
}

type Who = (usize, u64);

impl Tiny {
    pub(crate) fn new(bytes: &mut Unstructured<'_>) -> Result<Tiny> {
        let when_full = if bytes.arbitrary()? { WhenFull::RefuseNew } else { WhenFull::EvictFullest };
        let (capacity, most_bytes) = match bytes.int_in_range(0..=8_usize)? {
            0 => (Capacity::Bytes(64 << 10), 64 << 10),
            // 64 slots at least for each of four kinds of state, and 1 KiB of heap a key.
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
            2 => self.give_back(bytes.arbitrary::<u8>()?.into()),
            3 => {
                let who = self.who(bytes)?;
                let decision = self.store.peek(&self.limits[who.0], &who.1);
                assert!(decision.is_allowed(), "a peek needs no room");
            }
            4 => {
                let who = self.who(bytes)?;
                self.check_with_receipt(who, decode::cost(bytes)?);
            }
            _ => {
                let who = self.who(bytes)?;
                self.check(who, decode::cost(bytes)?);
            }
        }
        self.take_stock();
        Ok(())
    }

    /// Adds up what was admitted, unless somebody was evicted: whoever that was may begin anew.
    fn take_stock(&mut self) {
        let stats = self.store.stats();
        assert!(stats.bytes <= self.most_bytes, "{stats:?}");
        assert!(self.when_full == WhenFull::EvictFullest || stats.evictions == 0, "{stats:?}");
        if stats.evictions != self.evictions {
            self.evictions = stats.evictions;
            // Permits that are out are never forgotten.
            let is_kept = |who: &Who| self.limits[who.0].quota().kind() == AlgorithmKind::Concurrency;
            self.admitted.retain(|who, _| is_kept(who));
            self.just_admitted.retain(|(who, _)| is_kept(who));
        }
        for (who, cost) in std::mem::take(&mut self.just_admitted) {
            self.admit(who, cost);
        }
    }

    fn advance(&mut self, ns: u64) {
        self.now += ns;
        self.clock.set(self.now);
    }

    /// Distinct keys, to fill the table.
    fn check_many(&mut self, limit: usize, keys: u64) {
        for key in 0..keys {
            self.check((limit, key), 1);
        }
    }

    fn check(&mut self, who: Who, cost: u64) {
        let decision = self.store.check(&self.limits[who.0], &who.1, cost);
        self.assert_room(who, &decision);
        if decision.is_allowed() && cost > 0 {
            self.just_admitted.push((who, cost));
        }
    }

    fn check_with_receipt(&mut self, who: Who, cost: u64) {
        let (decision, receipt) = self.store.check_with_receipt(&self.limits[who.0], &who.1, cost);
        self.assert_room(who, &decision);
        if let Some(receipt) = receipt {
            self.just_admitted.push((who, cost));
            self.held.push((who, self.now, receipt));
        }
    }

    fn assert_room(&self, who: Who, decision: &Decision) {
        let may_be_full = self.when_full == WhenFull::RefuseNew || self.kind(who) == AlgorithmKind::Concurrency;
        assert!(may_be_full || decision.verdict != Verdict::NoRoom, "{:?}", self.quota(who));
    }

    fn admit(&mut self, who: Who, cost: u64) {
        let (now, quota) = (self.now, *self.quota(who));
        let admitted = self.admitted.entry(who).or_default();
        admitted.push((now, cost));
        if admitted.len() > REMEMBERED {
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

    fn give_back(&mut self, number: usize) {
        let Some(at) = number.checked_rem(self.held.len()) else { return };
        let (who, charged_at, receipt) = self.held.swap_remove(at);
        if let Some(admitted) = self.admitted.get_mut(&who)
            && let Some(at) = admitted.iter().position(|entry| *entry == (charged_at, receipt.cost()))
        {
            admitted.remove(at);
        }
        self.store.refund(receipt);
    }

    fn quota(&self, who: Who) -> &Quota {
        self.limits[who.0].quota()
    }

    fn kind(&self, who: Who) -> AlgorithmKind {
        self.quota(who).kind()
    }

    fn limit(&self, bytes: &mut Unstructured<'_>) -> Result<usize> {
        bytes.choose_index(self.limits.len())
    }

    fn who(&self, bytes: &mut Unstructured<'_>) -> Result<Who> {
        Ok((self.limit(bytes)?, bytes.arbitrary::<u8>()?.into()))
    }
}

/// The most in a span that begins and ends with an admission so far apart.
fn most_in(quota: &Quota, apart_ns: u64) -> Option<u64> {
    match quota.kind() {
        // Its bound is about departures.
        AlgorithmKind::LeakyQueue => None,
        // A permit lives until its lease ends.
        AlgorithmKind::Concurrency => (apart_ns < quota.period_ns()).then_some(quota.amount()),
        _ => most_admitted(quota, apart_ns + 1),
    }
}
