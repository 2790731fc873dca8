use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate::{Clock, Receipt};

use crate::service_store::ServiceStore as Store;

const MINUTE_NS: u64 = 60_000_000_000;

/// How long a receipt is good that holds no permits. One that does ends with their lease.
const GOOD_FOR_NS: u64 = 10 * MINUTE_NS;

/// A receipt takes some hundred bytes, so these take some tens of megabytes.
const MAX_RECEIPTS: usize = 100_000;

/// Under what name a caller has a receipt. Nobody can guess it, so nobody can give back what another paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ReceiptName(u128);

/// Receipts that callers may bring back, each once.
///
/// When there is no room, the one that ends first is forgotten: what it was for
/// stays charged, and permits run out with their lease.
pub(crate) struct Receipts {
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_name: HashMap<ReceiptName, (u64, Receipt<Store>)>,
    /// The same receipts, by when they end.
    by_end: BTreeSet<(u64, ReceiptName)>,
}

impl Receipts {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Receipts {
        Receipts { clock, kept: Mutex::default() }
    }

    /// Keeps a receipt, as long as its permits are leased if it holds any: with
    /// the lease they are others', and there is nothing left to release. `None`
    /// if the system has no name that nobody can guess.
    pub(crate) fn keep(&self, receipt: Receipt<Store>, lease_ns: Option<u64>) -> Option<ReceiptName> {
        let name = ReceiptName::new()?;
        let now_ns = self.clock.now_ns();
        let end_ns = now_ns.saturating_add(lease_ns.unwrap_or(GOOD_FOR_NS));
        let mut kept = self.lock();
        kept.forget_what_has_ended(now_ns);
        if kept.by_name.len() >= MAX_RECEIPTS {
            kept.forget_first();
        }
        kept.by_end.insert((end_ns, name));
        kept.by_name.insert(name, (end_ns, receipt));
        Some(name)
    }

    /// Takes a receipt, if it is there and still good.
    pub(crate) fn take(&self, name: ReceiptName) -> Option<Receipt<Store>> {
        let now_ns = self.clock.now_ns();
        let mut kept = self.lock();
        let (end_ns, receipt) = kept.by_name.remove(&name)?;
        kept.by_end.remove(&(end_ns, name));
        (end_ns > now_ns).then_some(receipt)
    }

    /// How many are good.
    pub(crate) fn len(&self) -> usize {
        let now_ns = self.clock.now_ns();
        let mut kept = self.lock();
        kept.forget_what_has_ended(now_ns);
        kept.by_name.len()
    }

    /// Nothing that holds the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn forget_what_has_ended(&mut self, now_ns: u64) {
        while self.by_end.first().is_some_and(|(end_ns, _)| *end_ns <= now_ns) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, name)) = self.by_end.pop_first() {
            self.by_name.remove(&name);
        }
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

    fn receipts(count: usize) -> Vec<Receipt<Store>> {
        let policy = PolicyBuilder::default().rule(rule("r").limit("1000000/min")).build().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(1));
        let (store, _) = Store::open(&policy, &clock, Box::new(|_| {})).unwrap();
        let limiter = Limiter::with_store(&policy, store).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut receipts = Vec::new();
            for _ in 0..count {
                receipts.push(limiter.decide_with_receipt(&Request::from_peer(None)).await.1.unwrap());
            }
            receipts
        })
    }

    fn kept() -> (Receipts, ManualClock) {
        let clock = ManualClock::at(1);
        (Receipts::new(Arc::new(clock.clone())), clock)
    }

    #[test]
    fn a_receipt_is_taken_once() {
        let (kept, _) = kept();
        let name = kept.keep(receipts(1).pop().unwrap(), None).unwrap();
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
                receipts(2).into_iter().map(|receipt| kept.keep(receipt, lease_ns).unwrap()).collect();
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
            kept.keep(receipt, lease_ns);
        }
        clock.advance(MINUTE_NS);
        assert_eq!(kept.len(), 1);
    }

    #[test]
    fn there_are_no_more_than_so_many() {
        let (kept, clock) = kept();
        let mut first = None;
        for receipt in receipts(MAX_RECEIPTS + 1) {
            let name = kept.keep(receipt, None);
            first = first.or(name);
            clock.advance(1);
        }
        assert_eq!(kept.len(), MAX_RECEIPTS);
        assert!(kept.take(first.unwrap()).is_none());
        // Those that have ended make room.
        clock.advance(GOOD_FOR_NS);
        kept.keep(receipts(1).pop().unwrap(), None);
        assert_eq!((kept.len(), kept.lock().by_end.len()), (1, 1));
    }

    #[test]
    fn only_what_was_written_is_read() {
        for text in ["", "0", "+0000000000000000000000000000000", "0000000000000000000000000000000G", "é"] {
            assert_eq!(ReceiptName::parse(text), None, "{text}");
        }
        assert_eq!(ReceiptName::parse(&"A".repeat(32)), None);
    }
}
