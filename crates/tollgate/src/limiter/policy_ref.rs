//! A shared reference to a policy that costs no atomic operation for each decision.
//!
//! A verdict keeps the policy that it was decided by, so that it can name its rules after a reload. An `Arc` would do,
//! but its count would be changed twice for every decision, by all threads in one cache line. So each thread keeps some
//! references in advance: a decision takes one of them, and dropping the verdict puts it back. Only a thread that runs
//! out of references, or that sees another policy for the first time, touches the shared count.
//!
//! The price: a thread that decides nothing any more keeps the last policy that it used until it ends.

use std::cell::RefCell;
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
    number: u64,
    references: Vec<Arc<ActivePolicy>>,
}

thread_local! {
    static KEPT_REFERENCES: RefCell<[Slot; SLOTS]> =
        const { RefCell::new([const { Slot { number: 0, references: Vec::new() } }; SLOTS]) };
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
        let take = |slots: &RefCell<[Slot; SLOTS]>| {
            let mut slots = slots.try_borrow_mut().ok()?;
            let slot = &mut slots[slot % SLOTS];
            if slot.number == number { slot.references.pop() } else { None }
        };
        KEPT_REFERENCES.try_with(take).ok().flatten()
    }

    /// Keeps more references to a policy. What it replaces is dropped outside of the borrow: a policy that nothing else
    /// refers to may drop anything.
    #[cold]
    #[inline(never)]
    fn refill(slot: usize, policy: Arc<ActivePolicy>) -> PolicyRef {
        let more: Vec<Arc<ActivePolicy>> = (0..TAKEN_AT_ONCE).map(|_| Arc::clone(&policy)).collect();
        let replaced = KEPT_REFERENCES.try_with(|slots| {
            let mut slots = slots.try_borrow_mut().ok()?;
            let slot = &mut slots[slot % SLOTS];
            slot.number = policy.number();
            Some(std::mem::replace(&mut slot.references, more))
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
        let number = policy.number();
        let slot = policy.slot();
        let mut policy = Some(policy);
        // A thread that ends has no slots any more; then the reference is simply dropped.
        let _ = KEPT_REFERENCES.try_with(|slots| {
            let Ok(mut slots) = slots.try_borrow_mut() else { return };
            let slot = &mut slots[slot % SLOTS];
            if slot.number == number && slot.references.len() < KEPT {
                slot.references.extend(policy.take());
            }
        });
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
