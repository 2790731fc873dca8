//! The table of the keys under callers' limits, whose quotas callers send with their requests.
//!
//! A caller that chooses the quota chooses when its key expires. So these keys have their own table: they evict only
//! each other, and never a key of the policy. Among them the quota does not matter either: the least recently used key
//! is evicted.

use tollgate_core::{Algorithm, Bucket, BucketState, CheckKernel, Decision, WindowState};

use crate::clock::Clock;
use crate::limit::caller_quota::{CallerQuota, PlainQuota};
use crate::locked_table::{LockedTable, StoredState, access_of};
use crate::memory::operation::StateOperation;
use crate::sync::lock;
use crate::table::full::TableFull;

/// The state of one key, with the quota that wrote it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallerState {
    /// The time of the last charge or refusal.
    pub(crate) last_used_at: u64,
    pub(crate) quota_state: CallerQuotaState,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum CallerQuotaState {
    #[default]
    Nothing,
    /// The members of a [`BucketState`] separately, which leaves space for the enum's tag beside `part`.
    Bucket {
        quota: PlainQuota,
        tat: u64,
        part: u32,
    },
    Window(WindowState),
}

impl CallerQuotaState {
    pub(crate) fn bucket(quota: PlainQuota, BucketState { tat, part }: BucketState) -> CallerQuotaState {
        CallerQuotaState::Bucket { quota, tat, part }
    }
}

impl StoredState for CallerState {
    fn rank(&self, free_at: u64) -> (u64, u64) {
        (self.last_used_at, free_at)
    }

    /// Many services have few such keys, or none.
    const GROWS: bool = true;
}

impl CallerState {
    /// Returns the amount used at `now`, under the quota that wrote the state.
    pub(crate) fn used_at(&self, now: u64) -> u64 {
        match self.quota_state {
            CallerQuotaState::Nothing => 0,
            CallerQuotaState::Bucket { quota, tat, part } => {
                quota.bucket().map_or(0, |writer_quota| writer_quota.used_tokens(BucketState { tat, part }, now))
            }
            CallerQuotaState::Window(window) => window.used_at(now),
        }
    }
}

impl LockedTable<CallerState> {
    /// Decides and charges a cost of 1 to a live key that this quota wrote, the most frequent case. `None` leaves it to
    /// [`apply_for_caller`](LockedTable::apply_for_caller).
    #[inline]
    pub(crate) fn check_known(
        &self,
        hash: u64,
        bucket: &Bucket,
        own: PlainQuota,
        clock: &impl Clock,
    ) -> Option<Decision> {
        match bucket.whole_tick_kernel() {
            Some(kernel) => self.check_with_kernel(hash, own, clock, kernel),
            None => self.check_with_kernel(hash, own, clock, bucket.fraction_kernel()?),
        }
    }

    #[inline]
    fn check_with_kernel(
        &self,
        hash: u64,
        own: PlainQuota,
        clock: &impl Clock,
        kernel: impl CheckKernel,
    ) -> Option<Decision> {
        let mut shard = lock(self.shard_of(hash));
        let now = clock.now_ns();
        let index = shard.find(hash)?;
        let slot = &mut shard.slots[index];
        let CallerQuotaState::Bucket { quota, tat, part } = &mut slot.state.quota_state else { return None };
        if *quota != own || slot.free_at <= now {
            return None;
        }
        let state = BucketState { tat: *tat, part: *part };
        let decision = match kernel.next_state(state, now) {
            Some(next) => {
                (*tat, *part) = (next.tat, next.part);
                slot.free_at = Bucket::full_at(next);
                kernel.allowed_decision(next, now)
            }
            None => kernel.refusal(state, now)?,
        };
        slot.state.last_used_at = now;
        Some(decision)
    }

    /// Applies an operation to the state of a key under a quota that a caller chose.
    pub(crate) fn apply_for_caller<O: StateOperation>(
        &self,
        hash: u64,
        quota: &CallerQuota,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, TableFull> {
        self.visit(hash, clock, access_of(operation), |known, now| {
            let (output, quota_state, free_at) = match quota {
                CallerQuota::Bucket { bucket, quota } => run_on_bucket(bucket, *quota, known, now, operation),
                CallerQuota::Window(window) => {
                    let mut state = match known.quota_state {
                        CallerQuotaState::Nothing => WindowState::default(),
                        CallerQuotaState::Window(state) => state,
                        CallerQuotaState::Bucket { .. } => window.state_with_used(known.used_at(now), now),
                    };
                    let output = operation.run(window, &mut state, now);
                    (output, CallerQuotaState::Window(state), window.expires_at(&state))
                }
            };
            if O::WRITES {
                *known = CallerState { last_used_at: now, quota_state };
            }
            (output, free_at)
        })
    }
}

/// Runs an operation on a bucket. A state that another quota wrote is handled as in the table of buckets: see
/// [`StateOperation::run_under_writer_quota`].
fn run_on_bucket<O: StateOperation>(
    bucket: &Bucket,
    own: PlainQuota,
    known: &CallerState,
    now: u64,
    operation: &O,
) -> (O::Output, CallerQuotaState, u64) {
    let mut state = match known.quota_state {
        CallerQuotaState::Nothing => BucketState::default(),
        CallerQuotaState::Bucket { quota, tat, part } if quota == own => BucketState { tat, part },
        CallerQuotaState::Bucket { quota, tat, part } => {
            let (writer_quota, state) = (quota.bucket(), BucketState { tat, part });
            let (writer_quota, mut as_written) = (writer_quota.as_ref().unwrap_or(bucket), state);
            if let Some(output) = operation.run_under_writer_quota(bucket, writer_quota, &mut as_written, now) {
                return (output, CallerQuotaState::bucket(quota, as_written), Bucket::full_at(as_written));
            }
            bucket.convert(writer_quota, state, now)
        }
        CallerQuotaState::Window(window) => bucket.state_with_used(window.used_at(now), now),
    };
    let output = operation.run(bucket, &mut state, now);
    (output, CallerQuotaState::bucket(own, state), Bucket::full_at(state))
}
