//! Limits of a region in memory.

use std::error::Error;
use std::sync::Arc;

use tollgate_core::{Bucket, Quota, RegionShare, Tick};
use tollgate_store::{Limit, LimitOptions, OnFailure};

use super::RegionalMemoryStore;
use super::key_table::KeyName;
use crate::regions::write_scoped;
use crate::store::{RedisKeyName, prefix_and_scope};

/// The private data in a [`Limit`] that regions divide. Other limits are those of the memory store.
#[derive(Debug)]
pub(super) struct DividedLimit {
    /// The beginning of the names of its keys.
    scope: Box<[u8]>,
    /// The name of its scope in reports.
    report_scope: Box<str>,
    /// The quota of all regions together.
    pub(super) whole: Quota,
    /// The share for which the limit was prepared, and its bucket.
    share: RegionShare,
    bucket: Arc<Bucket>,
    /// The limit while the region has no share, in the memory store: `None` unless the failure mode is
    /// [`Local`](OnFailure::Local).
    pub(super) fallback: Option<Limit>,
}

impl DividedLimit {
    /// Returns the data of a divided limit; `None` for others.
    pub(super) fn of(limit: &Limit) -> Option<&DividedLimit> {
        limit.private()
    }

    pub(super) fn key_name(&self, key: &[u8]) -> KeyName {
        RedisKeyName::new(&self.scope, key).bytes
    }

    /// Returns the name of a key in reports: the same as that of regions on servers.
    pub(super) fn report_name(&self, name: &KeyName) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_scoped(&mut bytes, &self.report_scope, name.get(self.scope.len()..).unwrap_or_default());
        bytes
    }

    /// Returns the bucket that a region with this share enforces; `None` if that would be no token at all.
    pub(super) fn bucket(&self, share: RegionShare) -> Option<Arc<Bucket>> {
        if share == self.share {
            return Some(Arc::clone(&self.bucket));
        }
        compiled(&share.quota(&self.whole).ok()?).map(Arc::new)
    }

    /// Returns the bucket for a share, or that of the policy if there is none.
    pub(super) fn present_bucket(&self, share: Option<RegionShare>) -> Arc<Bucket> {
        share.and_then(|share| self.bucket(share)).unwrap_or_else(|| Arc::clone(&self.bucket))
    }
}

/// Keys are refilled by the nanosecond, like those of the memory store.
fn compiled(quota: &Quota) -> Option<Bucket> {
    Bucket::new(quota, Tick::Nanosecond)
}

impl RegionalMemoryStore {
    pub(super) fn divide(
        &self,
        scope: &str,
        whole: Quota,
        options: LimitOptions,
    ) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        let share = self.inner.settings.share();
        let quota = share.quota(&whole)?;
        let fallback = match options.on_failure {
            OnFailure::Open | OnFailure::Closed => None,
            OnFailure::Local { share } => Some(self.inner.memory.limit(scope, whole.share(share))?),
        };
        let data = DividedLimit {
            scope: prefix_and_scope("", scope),
            report_scope: self.inner.regions.register(scope, &whole),
            whole,
            share,
            bucket: Arc::new(compiled(&quota).ok_or("only buckets can be divided among regions")?),
            fallback,
        };
        Ok(Limit::new(scope, quota, options, Tick::Nanosecond, data))
    }
}
