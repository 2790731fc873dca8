//! A pool of verdict data for each thread, so that a decision allocates nothing and changes no shared reference count.
//!
//! A verdict references the policy that decided it, to name its rules after a reload, and has the state of each of
//! these rules. Cloning an `Arc` of the policy would change its count twice for every decision, by all threads in one
//! cache line, and moving a verdict by value would copy some hundreds of bytes. So a verdict is a pointer to its
//! [data](VerdictData), and each thread keeps the data of dropped verdicts with their references to the active policy:
//! the next decision reuses one. Only a thread that has none, or that uses a new policy for the first time, allocates
//! and changes the shared count.
//!
//! The cost: an idle thread keeps the last policy that it used until the thread ends.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::active::ActivePolicy;
use crate::verdict::{Verdict, VerdictData};

/// The number of slots of a thread, over which the limiters of a process are spread. Two limiters in one slot replace
/// each other's data, which is slower and otherwise harmless.
const SLOTS: usize = 8;

/// The largest number of verdicts that a slot keeps: verdicts created on one thread and dropped on another would
/// accumulate there.
const KEPT: usize = 64;

/// The pooled data of one limiter, all of the same policy.
struct Slot {
    generation: Cell<u64>,
    /// Used first: most threads have one verdict at a time.
    first: Cell<Option<Box<VerdictData>>>,
    #[allow(clippy::vec_box, reason = "its items are moved as pointers")]
    more: RefCell<Vec<Box<VerdictData>>>,
}

impl Slot {
    const fn empty() -> Slot {
        Slot { generation: Cell::new(0), first: Cell::new(None), more: RefCell::new(Vec::new()) }
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

    /// Keeps data; returns data that cannot be kept.
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
    /// Returns a blank verdict of the policy of this generation, or of a newer one: `load` returns the active policy.
    /// Only its states are not blank: they are those of an earlier verdict, and must be overwritten or cleared.
    #[inline(always)]
    pub(super) fn blank(
        limiter_number: usize,
        generation: u64,
        now_ns: u64,
        load: impl FnOnce() -> Arc<ActivePolicy>,
    ) -> Verdict {
        match take_pooled(limiter_number, generation) {
            Some(data) => Verdict::of(data, now_ns),
            None => Verdict::of(allocate(limiter_number, load()), now_ns),
        }
    }

    /// Returns a blank verdict of the same policy, without states.
    #[inline]
    pub(crate) fn blank_of_same_policy(&self, now_ns: u64) -> Verdict {
        // If the policy was replaced, the pool has no data of it, and new data is allocated.
        let data = take_pooled(self.policy.limiter_number(), self.policy.generation());
        let data = data.unwrap_or_else(|| VerdictData::new(Arc::clone(&self.policy)));
        let mut verdict = Verdict::of(data, now_ns);
        verdict.states.clear();
        verdict
    }
}

/// Takes data of this generation from the pool.
#[inline(always)]
fn take_pooled(limiter_number: usize, generation: u64) -> Option<Box<VerdictData>> {
    let take = |slots: &[Slot; SLOTS]| {
        let slot = &slots[limiter_number % SLOTS];
        if slot.generation.get() == generation { slot.take() } else { None }
    };
    SLOTS_OF_THREAD.try_with(take).ok().flatten()
}

/// Allocates data of a policy. If its slot is of another generation, it is emptied first. Its data is dropped
/// outside of the borrow, because dropping the last reference to a policy may run any code.
#[cold]
#[inline(never)]
fn allocate(limiter_number: usize, policy: Arc<ActivePolicy>) -> Box<VerdictData> {
    let replaced = SLOTS_OF_THREAD.try_with(|slots| {
        let slot = &slots[limiter_number % SLOTS];
        let mut more = slot.more.try_borrow_mut().ok()?;
        if slot.generation.replace(policy.generation()) == policy.generation() {
            return None;
        }
        Some((std::mem::take(&mut *more), slot.first.take()))
    });
    drop(replaced);
    VerdictData::new(policy)
}

/// Returns the data of a dropped verdict to the pool.
#[inline(always)]
pub(crate) fn return_to_pool(data: Box<VerdictData>) {
    let (generation, limiter_number) = (data.policy.generation(), data.policy.limiter_number());
    // A thread that is ending has no slots: the data is dropped.
    let dropped = SLOTS_OF_THREAD.try_with(|slots| {
        let slot = &slots[limiter_number % SLOTS];
        if slot.generation.get() == generation { slot.keep(data) } else { Some(data) }
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
