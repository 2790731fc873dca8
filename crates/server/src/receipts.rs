use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate::Receipt;

use crate::service_store::ServiceStore as Store;

const MINUTE_NS: u64 = 60_000_000_000;

/// How long a receipt is good, unless its permits are leased for longer.
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
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_name: HashMap<ReceiptName, (u64, Receipt<Store>)>,
    /// The same receipts, by when they end.
    by_end: BTreeSet<(u64, ReceiptName)>,
}

impl Receipts {
    pub(crate) fn new() -> Receipts {
        Receipts { kept: Mutex::default() }
    }

    /// Keeps a receipt. `None` if the system has no name that nobody can guess.
    pub(crate) fn keep(&self, receipt: Receipt<Store>, lease_ns: u64, now_ns: u64) -> Option<ReceiptName> {
        let name = ReceiptName::new()?;
        let end_ns = now_ns.saturating_add(lease_ns.max(GOOD_FOR_NS));
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
    pub(crate) fn take(&self, name: ReceiptName, now_ns: u64) -> Option<Receipt<Store>> {
        let mut kept = self.lock();
        let (end_ns, receipt) = kept.by_name.remove(&name)?;
        kept.by_end.remove(&(end_ns, name));
        (end_ns > now_ns).then_some(receipt)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().by_name.len()
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
    use std::sync::Arc;

    use tollgate::{Clock, Limiter, ManualClock, PolicyBuilder, Request, rule};

    use super::*;

    fn receipts(count: usize) -> Vec<Receipt<Store>> {
        let policy = PolicyBuilder::default().rule(rule("r").limit("1000000/min")).build().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(1));
        let store = Store::open(&policy, &clock, Box::new(|_| {})).unwrap().0;
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

    #[test]
    fn a_receipt_is_taken_once() {
        let kept = Receipts::new();
        let name = kept.keep(receipts(1).pop().unwrap(), 0, 0).unwrap();
        assert_eq!(ReceiptName::parse(&name.to_string()), Some(name));
        assert!(kept.take(name, 0).is_some());
        assert!(kept.take(name, 0).is_none());
        assert_eq!(kept.len(), 0);
    }

    #[test]
    fn a_receipt_ends_with_its_time_or_its_lease() {
        let kept = Receipts::new();
        let names: Vec<ReceiptName> = receipts(4)
            .into_iter()
            .zip([0, 0, 60 * MINUTE_NS, 60 * MINUTE_NS])
            .map(|(receipt, lease_ns)| kept.keep(receipt, lease_ns, 0).unwrap())
            .collect();
        assert!(kept.take(names[0], GOOD_FOR_NS - 1).is_some());
        assert!(kept.take(names[1], GOOD_FOR_NS).is_none());
        assert!(kept.take(names[2], GOOD_FOR_NS).is_some());
        assert!(kept.take(names[3], 60 * MINUTE_NS).is_none());
    }

    #[test]
    fn there_are_no_more_than_so_many() {
        let kept = Receipts::new();
        let mut first = None;
        for (at, receipt) in receipts(MAX_RECEIPTS + 1).into_iter().enumerate() {
            let name = kept.keep(receipt, 0, at as u64);
            first = first.or(name);
        }
        assert_eq!(kept.len(), MAX_RECEIPTS);
        assert!(kept.take(first.unwrap(), 0).is_none());
        // Those that have ended make room.
        kept.keep(receipts(1).pop().unwrap(), 0, 2 * GOOD_FOR_NS);
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
