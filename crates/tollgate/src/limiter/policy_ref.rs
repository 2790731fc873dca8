//! A shared reference to a policy that costs no atomic operation for each decision.
//!
//! A verdict keeps the policy that it was decided by, so that it can name its rules after a reload. An `Arc` would do,
//! but its count would be changed twice for every decision, by all threads in one cache line. So each thread keeps some
//! references in advance: a decision takes one of them, and dropping the verdict puts it back. Only a thread that runs
//! out of references, or that sees another policy for the first time, touches the shared count.
//!
//! The price: a thread that decides nothing any more keeps the last policy that it used until it ends.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::active::ActivePolicy;

/// Limiters of one process are spread over so many slots of a thread. Two limiters in one slot replace each other's
/// references, which is slower and otherwise harmless.
pub(super) const SLOTS: usize = 8;

/// So many references are taken at once.
const TAKEN_AT_ONCE: usize = 16;

/// A thread keeps no more than this: verdicts that are made on one thread and dropped on another would pile up there.
const KEPT: usize = 64;

/// The references that a thread keeps for one limiter, all of them to the same policy.
struct Slot {
    number: Cell<u64>,
    /// The one that is used first. Most threads have one verdict at a time, and need no other.
    first: Cell<Option<Arc<ActivePolicy>>>,
    more: RefCell<Vec<Arc<ActivePolicy>>>,
}

impl Slot {
    const fn empty() -> Slot {
        Slot { number: Cell::new(0), first: Cell::new(None), more: RefCell::new(Vec::new()) }
    }

    #[inline]
    fn take(&self) -> Option<Arc<ActivePolicy>> {
        self.first.take().or_else(|| self.take_more())
    }

    #[cold]
    fn take_more(&self) -> Option<Arc<ActivePolicy>> {
        self.more.try_borrow_mut().ok()?.pop()
    }

    /// Keeps a reference; returns it if it cannot be kept.
    #[inline]
    fn keep(&self, policy: Arc<ActivePolicy>) -> Option<Arc<ActivePolicy>> {
        // The one that was first before, if any, is kept behind it.
        let before = self.first.replace(Some(policy))?;
        self.keep_more(before)
    }

    #[cold]
    fn keep_more(&self, policy: Arc<ActivePolicy>) -> Option<Arc<ActivePolicy>> {
        match self.more.try_borrow_mut() {
            Ok(mut more) if more.len() < KEPT => {
                more.push(policy);
                None
            }
            _ => Some(policy),
        }
    }
}

thread_local! {
    static SLOTS_OF_THREAD: [Slot; SLOTS] = const { [const { Slot::empty() }; SLOTS] };
}

/// A reference to a policy.
pub(crate) struct PolicyRef(Option<Arc<ActivePolicy>>);

impl PolicyRef {
    /// A reference to the policy with this number, which `load` gives. It may give a later one.
    #[inline]
    pub(super) fn take(slot: usize, number: u64, load: impl FnOnce() -> Arc<ActivePolicy>) -> PolicyRef {
        match PolicyRef::kept(slot, number) {
            Some(policy) => PolicyRef(Some(policy)),
            None => PolicyRef::refill(slot, load()),
        }
    }

    /// A reference that the thread does not keep: for calls that are rare, such as those of operators.
    pub(super) fn not_kept(policy: Arc<ActivePolicy>) -> PolicyRef {
        PolicyRef(Some(policy))
    }

    #[inline]
    fn kept(slot: usize, number: u64) -> Option<Arc<ActivePolicy>> {
        let take = |slots: &[Slot; SLOTS]| {
            let slot = &slots[slot % SLOTS];
            if slot.number.get() == number { slot.take() } else { None }
        };
        SLOTS_OF_THREAD.try_with(take).ok().flatten()
    }

    /// Keeps more references to a policy. What it replaces is dropped outside of the borrow: a policy that nothing else
    /// refers to may drop anything.
    #[cold]
    #[inline(never)]
    fn refill(slot: usize, policy: Arc<ActivePolicy>) -> PolicyRef {
        let more: Vec<Arc<ActivePolicy>> = (0..TAKEN_AT_ONCE).map(|_| Arc::clone(&policy)).collect();
        let replaced = SLOTS_OF_THREAD.try_with(|slots| {
            let slot = &slots[slot % SLOTS];
            let mut kept = slot.more.try_borrow_mut().ok()?;
            slot.number.set(policy.number());
            Some((std::mem::replace(&mut *kept, more), slot.first.take()))
        });
        drop(replaced);
        PolicyRef(Some(policy))
    }

    #[inline]
    fn policy(&self) -> &ActivePolicy {
        self.arc()
    }

    #[inline]
    fn arc(&self) -> &Arc<ActivePolicy> {
        match &self.0 {
            Some(policy) => policy,
            None => unreachable!("only dropping it takes the reference away"),
        }
    }
}

impl Drop for PolicyRef {
    #[inline]
    fn drop(&mut self) {
        let Some(policy) = self.0.take() else { return };
        let (number, slot) = (policy.number(), policy.slot());
        // A thread that ends has no slots any more; then the reference is simply dropped.
        let dropped = SLOTS_OF_THREAD.try_with(|slots| {
            let slot = &slots[slot % SLOTS];
            if slot.number.get() == number { slot.keep(policy) } else { Some(policy) }
        });
        drop(dropped);
    }
}

impl Clone for PolicyRef {
    #[inline]
    fn clone(&self) -> PolicyRef {
        // A policy that was replaced meanwhile is not kept again: the slot belongs to the one in force.
        let kept = PolicyRef::kept(self.slot(), self.number());
        PolicyRef(Some(kept.unwrap_or_else(|| Arc::clone(self.arc()))))
    }
}

impl Deref for PolicyRef {
    type Target = ActivePolicy;

    #[inline]
    fn deref(&self) -> &ActivePolicy {
        self.policy()
    }
}

impl fmt::Debug for PolicyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PolicyRef").field(&self.number()).finish()
    }
}
