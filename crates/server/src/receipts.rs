use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate::{Clock, Receipt};

use crate::listen::counted_as;

const MINUTE_NS: u64 = 60_000_000_000;

/// How long a receipt is good that holds no permits. One that does ends with their lease.
const GOOD_FOR_NS: u64 = 10 * MINUTE_NS;

/// A receipt takes some hundred bytes, so these take some tens of megabytes.
const MAX_RECEIPTS: usize = 100_000;

/// A gateway holds those of all its clients, so that half of them may be one caller's.
const MAX_RECEIPTS_PER_CALLER: usize = MAX_RECEIPTS / 2;

/// Under what name a caller has a receipt. Nobody can guess it, so nobody can give back what another paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ReceiptName(u128);

/// Receipts that callers may bring back, each once.
///
/// A caller that has no room pushes out its own, and where there is no room at
/// all, the caller with the most loses one: the one that ends first. What it was
/// for stays charged, and permits run out with their lease.
pub(crate) struct Receipts {
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
    evicted: AtomicU64,
}

#[derive(Default)]
struct Kept {
    by_name: HashMap<ReceiptName, KeptReceipt>,
    /// The same receipts, by when they end.
    by_end: BTreeSet<(u64, ReceiptName)>,
    /// The same, for each caller.
    by_caller: HashMap<IpAddr, BTreeSet<(u64, ReceiptName)>>,
    /// How many each caller has.
    by_count: BTreeSet<(usize, IpAddr)>,
}

struct KeptReceipt {
    end_ns: u64,
    caller: IpAddr,
    receipt: Receipt,
}

impl Receipts {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Receipts {
        Receipts { clock, kept: Mutex::default(), evicted: AtomicU64::new(0) }
    }

    /// Keeps a receipt, as long as its permits are leased if it holds any: with
    /// the lease they are others', and there is nothing left to release. `None`
    /// if the system has no name that nobody can guess.
    pub(crate) fn keep(&self, receipt: Receipt, lease_ns: Option<u64>, caller: IpAddr) -> Option<ReceiptName> {
        let caller = counted_as(caller);
        let name = ReceiptName::new()?;
        let now_ns = self.clock.now_ns();
        let end_ns = now_ns.saturating_add(lease_ns.unwrap_or(GOOD_FOR_NS));
        let mut kept = self.lock();
        kept.forget_what_has_ended(now_ns);
        if let Some(other) = kept.in_the_way_of(caller) {
            kept.remove(other);
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        kept.insert(name, KeptReceipt { end_ns, caller, receipt });
        Some(name)
    }

    /// Takes a receipt, if it is there and still good.
    pub(crate) fn take(&self, name: ReceiptName) -> Option<Receipt> {
        let now_ns = self.clock.now_ns();
        let mut kept = self.lock();
        let taken = kept.remove(name)?;
        (taken.end_ns > now_ns).then_some(taken.receipt)
    }

    /// How many are good.
    pub(crate) fn len(&self) -> usize {
        let now_ns = self.clock.now_ns();
        let mut kept = self.lock();
        kept.forget_what_has_ended(now_ns);
        kept.by_name.len()
    }

    /// How many had to make room for others.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Nothing that holds the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn forget_what_has_ended(&mut self, now_ns: u64) {
        while let Some((end_ns, name)) = self.by_end.first().copied()
            && end_ns <= now_ns
        {
            self.remove(name);
        }
    }

    /// Which receipt has to go before a caller can have another.
    fn in_the_way_of(&self, caller: IpAddr) -> Option<ReceiptName> {
        let is_full = self.by_name.len() >= MAX_RECEIPTS;
        let loser = match self.by_caller.get(&caller) {
            Some(own) if own.len() >= MAX_RECEIPTS_PER_CALLER => caller,
            _ if is_full => self.by_count.last()?.1,
            _ => return None,
        };
        self.by_caller.get(&loser)?.first().map(|(_, name)| *name)
    }

    fn insert(&mut self, name: ReceiptName, kept: KeptReceipt) {
        self.by_end.insert((kept.end_ns, name));
        let own = self.by_caller.entry(kept.caller).or_default();
        self.by_count.remove(&(own.len(), kept.caller));
        own.insert((kept.end_ns, name));
        self.by_count.insert((own.len(), kept.caller));
        self.by_name.insert(name, kept);
    }

    fn remove(&mut self, name: ReceiptName) -> Option<KeptReceipt> {
        let kept = self.by_name.remove(&name)?;
        self.by_end.remove(&(kept.end_ns, name));
        if let Some(own) = self.by_caller.get_mut(&kept.caller) {
            self.by_count.remove(&(own.len(), kept.caller));
            own.remove(&(kept.end_ns, name));
            // Callers without receipts are not remembered, or the table would grow without end.
            if own.is_empty() {
                self.by_caller.remove(&kept.caller);
            } else {
                self.by_count.insert((own.len(), kept.caller));
            }
        }
        Some(kept)
    }
}

impl ReceiptName {
    fn new() -> Option<ReceiptName> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(ReceiptName(u128::from_ne_bytes(bytes)))
    }

    /// Reads what [`Display`](fmt::Display) writes, and nothing else.
    pub(crate) fn parse(text: &str) -> Option<ReceiptName> {
        let is_written_by_us = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_written_by_us.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(ReceiptName)
    }
}

impl fmt::Display for ReceiptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Limiter, ManualClock, PolicyBuilder, Request, rule};

    use super::*;

    fn receipts(count: usize) -> Vec<Receipt> {
        let policy = PolicyBuilder::default().rule(rule("r").limit("1000000/min")).build().unwrap();
        let limiter = Limiter::in_memory(&policy, ManualClock::at(1)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut receipts = Vec::new();
            for _ in 0..count {
                receipts.push(limiter.decide_with_receipt(&Request::from_peer(None)).await.1.unwrap());
            }
            receipts
        })
    }

    fn caller(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn kept() -> (Receipts, ManualClock) {
        let clock = ManualClock::at(1);
        (Receipts::new(Arc::new(clock.clone())), clock)
    }

    #[test]
    fn a_receipt_is_taken_once() {
        let (kept, _) = kept();
        let name = kept.keep(receipts(1).pop().unwrap(), None, caller(1)).unwrap();
        assert_eq!(ReceiptName::parse(&name.to_string()), Some(name));
        assert!(kept.take(name).is_some());
        assert!(kept.take(name).is_none());
        assert_eq!(kept.len(), 0);
    }

    #[test]
    fn a_receipt_ends_with_its_time_or_its_lease() {
        for (lease_ns, good_for_ns) in
            [(None, GOOD_FOR_NS), (Some(MINUTE_NS), MINUTE_NS), (Some(60 * MINUTE_NS), 60 * MINUTE_NS)]
        {
            let (kept, clock) = kept();
            let names: Vec<ReceiptName> =
                receipts(2).into_iter().map(|receipt| kept.keep(receipt, lease_ns, caller(1)).unwrap()).collect();
            clock.advance(good_for_ns - 1);
            assert!(kept.take(names[0]).is_some());
            assert_eq!(kept.len(), 1);
            clock.advance(1);
            assert!(kept.take(names[1]).is_none());
            assert_eq!(kept.len(), 0);
        }
    }

    #[test]
    fn one_that_has_ended_is_not_counted_though_nobody_brings_it_back() {
        let (kept, clock) = kept();
        for (receipt, lease_ns) in receipts(2).into_iter().zip([None, Some(MINUTE_NS)]) {
            kept.keep(receipt, lease_ns, caller(1));
        }
        clock.advance(MINUTE_NS);
        assert_eq!(kept.len(), 1);
    }

    #[test]
    fn a_caller_with_too_many_pushes_out_its_own() {
        let (kept, clock) = kept();
        let mut receipts = receipts(MAX_RECEIPTS_PER_CALLER + 3).into_iter();
        let other = kept.keep(receipts.next().unwrap(), None, caller(1)).unwrap();
        let mut names = Vec::new();
        for receipt in receipts.by_ref().take(MAX_RECEIPTS_PER_CALLER + 1) {
            names.push(kept.keep(receipt, None, caller(2)).unwrap());
            clock.advance(1);
        }
        assert_eq!((kept.len(), kept.evicted()), (MAX_RECEIPTS_PER_CALLER + 1, 1));
        assert!(kept.take(names[0]).is_none());
        assert!(kept.take(names[1]).is_some());
        assert!(kept.take(other).is_some());
        // Those that have ended make room, and nothing is left of them.
        clock.advance(GOOD_FOR_NS);
        kept.keep(receipts.next().unwrap(), None, caller(3));
        let kept = kept.lock();
        assert_eq!((kept.by_name.len(), kept.by_end.len(), kept.by_caller.len(), kept.by_count.len()), (1, 1, 1, 1));
    }

    #[test]
    fn where_all_are_taken_the_caller_with_the_most_loses_one() {
        let (kept, clock) = kept();
        let mut receipts = receipts(MAX_RECEIPTS + 1).into_iter();
        let mut keep = |from: u8| {
            clock.advance(1);
            kept.keep(receipts.next().unwrap(), None, caller(from)).unwrap()
        };
        let few = keep(1);
        let most: Vec<ReceiptName> = (0..MAX_RECEIPTS_PER_CALLER).map(|_| keep(2)).collect();
        for _ in 0..MAX_RECEIPTS_PER_CALLER - 1 {
            keep(3);
        }
        assert_eq!((kept.len(), kept.evicted()), (MAX_RECEIPTS, 0));
        keep(4);
        assert_eq!((kept.len(), kept.evicted()), (MAX_RECEIPTS, 1));
        assert!(kept.take(most[0]).is_none());
        assert!(kept.take(few).is_some());
    }

    #[test]
    fn only_what_was_written_is_read() {
        for text in ["", "0", "+0000000000000000000000000000000", "0000000000000000000000000000000G", "é"] {
            assert_eq!(ReceiptName::parse(text), None, "{text}");
        }
        assert_eq!(ReceiptName::parse(&"A".repeat(32)), None);
    }
}
