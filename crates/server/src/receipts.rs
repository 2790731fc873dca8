use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate::Receipt;
use tollgate::clock::Clock;

use crate::listen::counted_address;

const MINUTE_NS: u64 = 60_000_000_000;

/// How long a receipt without permits is valid. One with permits expires with their lease.
const VALID_FOR_NS: u64 = 10 * MINUTE_NS;

/// A receipt takes some hundred bytes, so all of them take some tens of megabytes.
const MAX_RECEIPTS: usize = 100_000;

/// A gateway holds the receipts of all its clients, so one caller may have half of them.
const MAX_RECEIPTS_PER_CALLER: usize = MAX_RECEIPTS / 2;

/// The random name of a receipt. It cannot be guessed, so a caller cannot refund the charges of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ReceiptName(u128);

/// Stored receipts, each usable once.
///
/// A caller at its limit evicts its own receipt; if the table is full, the caller with the most receipts loses the one
/// that expires first. The charge of an evicted receipt remains, and its permits expire with their lease.
pub(crate) struct Receipts {
    clock: Arc<dyn Clock>,
    kept: Mutex<ReceiptTable>,
    evicted: AtomicU64,
}

#[derive(Default)]
struct ReceiptTable {
    by_name: HashMap<ReceiptName, StoredReceipt>,
    /// The same receipts by expiry.
    by_end: BTreeSet<(u64, ReceiptName)>,
    /// The same, for each caller.
    by_caller: HashMap<IpAddr, BTreeSet<(u64, ReceiptName)>>,
    /// The number of receipts of each caller.
    by_count: BTreeSet<(usize, IpAddr)>,
}

struct StoredReceipt {
    end_ns: u64,
    caller: IpAddr,
    receipt: Receipt,
}

impl Receipts {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Receipts {
        Receipts { clock, kept: Mutex::default(), evicted: AtomicU64::new(0) }
    }

    /// Stores a receipt until it expires, with its lease if it holds permits: afterwards the permits belong to others,
    /// and there is nothing to release. `None` if the system has no random numbers.
    pub(crate) fn keep(&self, receipt: Receipt, lease_ns: Option<u64>, caller: IpAddr) -> Option<ReceiptName> {
        let caller = counted_address(caller);
        let name = ReceiptName::new()?;
        let now_ns = self.clock.now_ns();
        let end_ns = now_ns.saturating_add(lease_ns.unwrap_or(VALID_FOR_NS));
        let mut kept = self.lock();
        kept.remove_expired(now_ns);
        if let Some(other) = kept.eviction_candidate(caller) {
            kept.remove(other);
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        kept.insert(name, StoredReceipt { end_ns, caller, receipt });
        Some(name)
    }

    /// Removes and returns a valid receipt.
    pub(crate) fn take(&self, name: ReceiptName) -> Option<Receipt> {
        let now_ns = self.clock.now_ns();
        let mut kept = self.lock();
        let taken = kept.remove(name)?;
        (taken.end_ns > now_ns).then_some(taken.receipt)
    }

    /// Returns the number of valid receipts.
    pub(crate) fn len(&self) -> usize {
        let now_ns = self.clock.now_ns();
        let mut kept = self.lock();
        kept.remove_expired(now_ns);
        kept.by_name.len()
    }

    /// Returns the number of evicted receipts.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Nothing that holds the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, ReceiptTable> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReceiptTable {
    fn remove_expired(&mut self, now_ns: u64) {
        while let Some((end_ns, name)) = self.by_end.first().copied()
            && end_ns <= now_ns
        {
            self.remove(name);
        }
    }

    /// Returns the receipt to evict before a caller can store another.
    fn eviction_candidate(&self, caller: IpAddr) -> Option<ReceiptName> {
        let is_full = self.by_name.len() >= MAX_RECEIPTS;
        let evicted_from = match self.by_caller.get(&caller) {
            Some(own) if own.len() >= MAX_RECEIPTS_PER_CALLER => caller,
            _ if is_full => self.by_count.last()?.1,
            _ => return None,
        };
        self.by_caller.get(&evicted_from)?.first().map(|(_, name)| *name)
    }

    fn insert(&mut self, name: ReceiptName, kept: StoredReceipt) {
        self.by_end.insert((kept.end_ns, name));
        let own = self.by_caller.entry(kept.caller).or_default();
        self.by_count.remove(&(own.len(), kept.caller));
        own.insert((kept.end_ns, name));
        self.by_count.insert((own.len(), kept.caller));
        self.by_name.insert(name, kept);
    }

    fn remove(&mut self, name: ReceiptName) -> Option<StoredReceipt> {
        let kept = self.by_name.remove(&name)?;
        self.by_end.remove(&(kept.end_ns, name));
        if let Some(own) = self.by_caller.get_mut(&kept.caller) {
            self.by_count.remove(&(own.len(), kept.caller));
            own.remove(&(kept.end_ns, name));
            // Callers without receipts are removed, or the table would grow without bound.
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
        let is_canonical = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_canonical.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(ReceiptName)
    }
}

impl fmt::Display for ReceiptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::policy::PolicyBuilder;
    use tollgate::{Limiter, ManualClock, Request, rule};

    use super::*;

    fn receipts(count: usize) -> Vec<Receipt> {
        let policy = PolicyBuilder::default().rule(rule("r").limit("1000000/min")).build().unwrap();
        let limiter = Limiter::with_clock(&policy, ManualClock::at(1)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut receipts = Vec::new();
            for _ in 0..count {
                receipts.push(limiter.permit(&Request::from_peer(None)).unwrap().into_receipt());
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
    fn receipts_are_taken_once() {
        let (kept, _) = kept();
        let name = kept.keep(receipts(1).pop().unwrap(), None, caller(1)).unwrap();
        assert_eq!(ReceiptName::parse(&name.to_string()), Some(name));
        assert!(kept.take(name).is_some());
        assert!(kept.take(name).is_none());
        assert_eq!(kept.len(), 0);
    }

    #[test]
    fn receipts_expire_after_10_minutes_or_with_their_lease() {
        for (lease_ns, valid_for_ns) in
            [(None, VALID_FOR_NS), (Some(MINUTE_NS), MINUTE_NS), (Some(60 * MINUTE_NS), 60 * MINUTE_NS)]
        {
            let (kept, clock) = kept();
            let names: Vec<ReceiptName> =
                receipts(2).into_iter().map(|receipt| kept.keep(receipt, lease_ns, caller(1)).unwrap()).collect();
            clock.advance(Duration::from_nanos(valid_for_ns - 1));
            assert!(kept.take(names[0]).is_some());
            assert_eq!(kept.len(), 1);
            clock.advance(Duration::from_nanos(1));
            assert!(kept.take(names[1]).is_none());
            assert_eq!(kept.len(), 0);
        }
    }

    #[test]
    fn expired_receipts_are_not_counted() {
        let (kept, clock) = kept();
        for (receipt, lease_ns) in receipts(2).into_iter().zip([None, Some(MINUTE_NS)]) {
            kept.keep(receipt, lease_ns, caller(1));
        }
        clock.advance(Duration::from_nanos(MINUTE_NS));
        assert_eq!(kept.len(), 1);
    }

    #[test]
    fn a_caller_at_its_limit_evicts_its_own_receipt() {
        let (kept, clock) = kept();
        let mut receipts = receipts(MAX_RECEIPTS_PER_CALLER + 3).into_iter();
        let other = kept.keep(receipts.next().unwrap(), None, caller(1)).unwrap();
        let mut names = Vec::new();
        for receipt in receipts.by_ref().take(MAX_RECEIPTS_PER_CALLER + 1) {
            names.push(kept.keep(receipt, None, caller(2)).unwrap());
            clock.advance(Duration::from_nanos(1));
        }
        assert_eq!((kept.len(), kept.evicted()), (MAX_RECEIPTS_PER_CALLER + 1, 1));
        assert!(kept.take(names[0]).is_none());
        assert!(kept.take(names[1]).is_some());
        assert!(kept.take(other).is_some());
        // Expired receipts are removed from all indexes.
        clock.advance(Duration::from_nanos(VALID_FOR_NS));
        kept.keep(receipts.next().unwrap(), None, caller(3));
        let kept = kept.lock();
        assert_eq!((kept.by_name.len(), kept.by_end.len(), kept.by_caller.len(), kept.by_count.len()), (1, 1, 1, 1));
    }

    #[test]
    fn a_full_table_evicts_from_the_caller_with_the_most_receipts() {
        let (kept, clock) = kept();
        let mut receipts = receipts(MAX_RECEIPTS + 1).into_iter();
        let mut keep = |from: u8| {
            clock.advance(Duration::from_nanos(1));
            kept.keep(receipts.next().unwrap(), None, caller(from)).unwrap()
        };
        let fewest = keep(1);
        let most: Vec<ReceiptName> = (0..MAX_RECEIPTS_PER_CALLER).map(|_| keep(2)).collect();
        for _ in 0..MAX_RECEIPTS_PER_CALLER - 1 {
            keep(3);
        }
        assert_eq!((kept.len(), kept.evicted()), (MAX_RECEIPTS, 0));
        keep(4);
        assert_eq!((kept.len(), kept.evicted()), (MAX_RECEIPTS, 1));
        assert!(kept.take(most[0]).is_none());
        assert!(kept.take(fewest).is_some());
    }

    #[test]
    fn malformed_receipt_names_are_rejected() {
        for text in ["", "0", "+0000000000000000000000000000000", "0000000000000000000000000000000G", "é"] {
            assert_eq!(ReceiptName::parse(text), None, "{text}");
        }
        assert_eq!(ReceiptName::parse(&"A".repeat(32)), None);
    }
}
