//! Verdicts that are used again, so that a decision allocates nothing and changes no shared count.
//!
//! A verdict keeps the policy that it was decided by, so that it can name its rules after a reload, and how each of these
//! rules stands. An `Arc` to the policy would be counted twice for every decision, by all threads in one cache line, and
//! some hundreds of bytes would be moved wherever a verdict goes. So a verdict is a pointer to its [data](VerdictData),
//! and each thread keeps the data of verdicts that were dropped, with their references to the policy in force: the next
//! decision takes one of them. Only a thread that has none, or that sees another policy for the first time, allocates and
//! touches the shared count.
//!
//! The price: a thread that decides nothing any more keeps the last policy that it used until it ends.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::active::ActivePolicy;
use crate::verdict::{Verdict, VerdictData};

/// Limiters of one process are spread over so many slots of a thread. Two limiters in one slot replace each other's
/// data, which is slower and otherwise harmless.
const SLOTS: usize = 8;

/// A thread keeps no more than this: verdicts that are made on one thread and dropped on another would pile up there.
const KEPT: usize = 64;

/// What a thread keeps for one limiter, all of it for the same policy.
struct Slot {
    number: Cell<u64>,
    /// The one that is used first. Most threads have one verdict at a time, and need no other.
    first: Cell<Option<Box<VerdictData>>>,
    #[allow(clippy::vec_box, reason = "what it keeps is moved as a pointer")]
    more: RefCell<Vec<Box<VerdictData>>>,
}

impl Slot {
    const fn empty() -> Slot {
        Slot { number: Cell::new(0), first: Cell::new(None), more: RefCell::new(Vec::new()) }
    }

    #[inline]
    fn take(&self) -> Option<Box<VerdictData>> {
        match self.first.take() {
            Some(data) => Some(data),
            None => self.take_more(),
        }
    }

    #[inline(never)]
    fn take_more(&self) -> Option<Box<VerdictData>> {
        self.more.try_borrow_mut().ok()?.pop()
    }

    /// Keeps data; returns what cannot be kept.
    #[inline]
    fn keep(&self, data: Box<VerdictData>) -> Option<Box<VerdictData>> {
        let before = self.first.replace(Some(data))?;
        self.keep_more(before)
    }

    #[inline(never)]
    fn keep_more(&self, data: Box<VerdictData>) -> Option<Box<VerdictData>> {
        match self.more.try_borrow_mut() {
            Ok(mut more) if more.len() < KEPT => {
                more.push(data);
                None
            }
            _ => Some(data),
        }
    }
}

thread_local! {
    static SLOTS_OF_THREAD: [Slot; SLOTS] = const { [const { Slot::empty() }; SLOTS] };
}

impl Verdict {
    /// A verdict in which nothing is decided yet, of the policy with this number, which `load` gives. It may give a
    /// later one. Its states are to be written.
    #[inline(always)]
    pub(super) fn undecided(
        slot: usize,
        number: u64,
        now_ns: u64,
        load: impl FnOnce() -> Arc<ActivePolicy>,
    ) -> Verdict {
        match kept(slot, number) {
            Some(data) => Verdict::of(data, now_ns),
            None => Verdict::of(first_of(slot, load()), now_ns),
        }
    }

    /// Another verdict of the same policy, in which nothing is decided yet.
    #[inline]
    pub(crate) fn another(&self, now_ns: u64) -> Verdict {
        // A policy that was replaced meanwhile is not kept again: the slot belongs to the one in force.
        let data = kept(self.policy.slot(), self.policy.number());
        let data = data.unwrap_or_else(|| VerdictData::new(Arc::clone(&self.policy)));
        let mut verdict = Verdict::of(data, now_ns);
        verdict.states.clear();
        verdict
    }
}

#[inline(always)]
fn kept(slot: usize, number: u64) -> Option<Box<VerdictData>> {
    let take = |slots: &[Slot; SLOTS]| {
        let slot = &slots[slot % SLOTS];
        if slot.number.get() == number { slot.take() } else { None }
    };
    SLOTS_OF_THREAD.try_with(take).ok().flatten()
}

/// The first data of a policy that a thread has not seen, or more of one that it has. What the thread keeps of other
/// policies is dropped outside of the borrow: a policy that nothing else refers to may drop anything.
#[cold]
#[inline(never)]
fn first_of(slot: usize, policy: Arc<ActivePolicy>) -> Box<VerdictData> {
    let replaced = SLOTS_OF_THREAD.try_with(|slots| {
        let slot = &slots[slot % SLOTS];
        let mut more = slot.more.try_borrow_mut().ok()?;
        if slot.number.replace(policy.number()) == policy.number() {
            return None;
        }
        Some((std::mem::take(&mut *more), slot.first.take()))
    });
    drop(replaced);
    VerdictData::new(policy)
}

/// Gives back what a verdict was made of.
#[inline(always)]
pub(crate) fn give_back(data: Box<VerdictData>) {
    let (number, slot) = (data.policy.number(), data.policy.slot());
    // A thread that ends has no slots any more; then it is simply dropped.
    let dropped = SLOTS_OF_THREAD.try_with(|slots| {
        let slot = &slots[slot % SLOTS];
        if slot.number.get() == number { slot.keep(data) } else { Some(data) }
    });
    if !matches!(dropped, Ok(None)) {
        drop_data(dropped);
    }
}

#[cold]
#[inline(never)]
fn drop_data<E>(data: Result<Option<Box<VerdictData>>, E>) {
    drop(data);
}
