//! The table of keys whose quotas callers choose.
//!
//! A caller who chooses the quota chooses when its key is forgotten. So these
//! keys have a table of their own: they make room for each other, and no key of
//! the policy ever makes room for one of them. Among themselves the quota has
//! no say either: the key that was asked about longest ago makes room.

use tollgate_core::{Algorithm, Bucket, BucketState, CheckSteps, Decision, WindowState};

use crate::clock::Clock;
use crate::limit::caller_rule::{CallerRule, PlainQuota};
use crate::locked_table::{Held, LockedTable, access_of};
use crate::memory::operation::Operation;
use crate::sync::lock;
use crate::table::full::Full;

/// One key's state, with the quota that wrote it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallerState {
    /// When it was last charged, or refused.
    pub(crate) asked_at: u64,
    pub(crate) kept: Kept,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Kept {
    #[default]
    Nothing,
    /// The members of a [`BucketState`] by themselves, which leaves room for the kind beside `part`.
    Bucket {
        quota: PlainQuota,
        tat: u64,
        part: u32,
    },
    Window(WindowState),
}

impl Kept {
    pub(crate) fn bucket(quota: PlainQuota, BucketState { tat, part }: BucketState) -> Kept {
        Kept::Bucket { quota, tat, part }
    }
}

impl Held for CallerState {
    fn rank(&self, free_at: u64) -> (u64, u64) {
        (self.asked_at, free_at)
    }

    /// Many services meet few such keys, or none.
    const GROWS: bool = true;
}

impl CallerState {
    /// What it has used at `now`, whatever counted it.
    pub(crate) fn used_at(&self, now: u64) -> u64 {
        match self.kept {
            Kept::Nothing => 0,
            Kept::Bucket { quota, tat, part } => {
                quota.bucket().map_or(0, |writer| writer.used_tokens(BucketState { tat, part }, now))
            }
            Kept::Window(window) => window.used_at(now),
        }
    }
}

impl LockedTable<CallerState> {
    /// Decides and charges a cost of 1 to a live key that this quota wrote, as most are. `None` leaves it to
    /// [`apply_for_caller`](LockedTable::apply_for_caller).
    #[inline]
    pub(crate) fn check_known(
        &self,
        hash: u64,
        bucket: &Bucket,
        own: PlainQuota,
        clock: &impl Clock,
    ) -> Option<Decision> {
        match bucket.whole_steps() {
            Some(steps) => self.check_in_steps(hash, own, clock, steps),
            None => self.check_in_steps(hash, own, clock, bucket.fraction_steps()?),
        }
    }

    #[inline]
    fn check_in_steps(
        &self,
        hash: u64,
        own: PlainQuota,
        clock: &impl Clock,
        steps: impl CheckSteps,
    ) -> Option<Decision> {
        let mut shard = lock(self.shard_of(hash));
        let now = clock.now_ns();
        let at = shard.find(hash)?;
        let slot = &mut shard.slots[at];
        let Kept::Bucket { quota, tat, part } = &mut slot.state.kept else { return None };
        if *quota != own || slot.free_at <= now {
            return None;
        }
        let state = BucketState { tat: *tat, part: *part };
        let decision = match steps.pass(state, now) {
            Some(next) => {
                (*tat, *part) = (next.tat, next.part);
                slot.free_at = Bucket::full_at(next);
                steps.passed(next, now)
            }
            None => steps.refused(state, now)?,
        };
        slot.state.asked_at = now;
        Some(decision)
    }

    /// Any operation on a key's state under a quota that a caller chose.
    pub(crate) fn apply_for_caller<O: Operation>(
        &self,
        hash: u64,
        rule: &CallerRule,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, Full> {
        self.visit(hash, clock, access_of(operation), |known, now| {
            let (output, kept, free_at) = match rule {
                CallerRule::Bucket { bucket, quota } => run_on_bucket(bucket, *quota, known, now, operation),
                CallerRule::Window(window) => {
                    let mut state = match known.kept {
                        Kept::Nothing => WindowState::default(),
                        Kept::Window(state) => state,
                        Kept::Bucket { .. } => window.carried(known.used_at(now), now),
                    };
                    let output = operation.run(window, &mut state, now);
                    (output, Kept::Window(state), window.untouched_at(&state))
                }
            };
            if O::WRITES {
                *known = CallerState { asked_at: now, kept };
            }
            (output, free_at)
        })
    }
}

/// A state that another quota wrote is read as in the table of buckets: see [`Operation::run_as_writer`].
fn run_on_bucket<O: Operation>(
    bucket: &Bucket,
    own: PlainQuota,
    known: &CallerState,
    now: u64,
    operation: &O,
) -> (O::Output, Kept, u64) {
    let mut state = match known.kept {
        Kept::Nothing => BucketState::default(),
        Kept::Bucket { quota, tat, part } if quota == own => BucketState { tat, part },
        Kept::Bucket { quota, tat, part } => {
            let (writer, state) = (quota.bucket(), BucketState { tat, part });
            let (writer, mut as_written) = (writer.as_ref().unwrap_or(bucket), state);
            if let Some(output) = operation.run_as_writer(bucket, writer, &mut as_written, now) {
                return (output, Kept::bucket(quota, as_written), Bucket::full_at(as_written));
            }
            bucket.adopt(writer, state, now)
        }
        Kept::Window(window) => bucket.carried(window.used_at(now), now),
    };
    let output = operation.run(bucket, &mut state, now);
    (output, Kept::bucket(own, state), Bucket::full_at(state))
}
