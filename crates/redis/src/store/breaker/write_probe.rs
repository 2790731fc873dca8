//! The probe of a server that is out of memory: a call that writes. One that reads would succeed.

use smallvec::smallvec;
use tollgate_core::Quota;
use tollgate_store::LimitOptions;

use crate::call::{Call, ScriptOp, Target};
use crate::store::key_names::RedisKeyName;
use crate::store::limit::{RedisLimitData, prepare};
use crate::store::{Inner, prefix_and_scope};
use crate::transport::Slot;

/// The scope of the keys that probes write. No rule has such a name.
const SCOPE: &str = ".probe";
/// Each probe charges one token, so its key expires after at most a few milliseconds.
const RATE: &str = "1000/s";
/// The most keys that are tried to find one in a slot: each slot is hit once in 16384 keys on average, so the chance to
/// miss it is below one in a billion.
const MAX_KEYS: u32 = 1 << 19;

impl Inner {
    /// Returns a call that writes a key in this slot.
    pub(super) fn write_probe(&self, slot: Slot) -> Option<Call> {
        let quota = Quota::token_bucket(RATE.parse().ok()?).ok()?;
        let prefix = prefix_and_scope(&self.settings.prefix, SCOPE);
        let mut keys = (0..MAX_KEYS).map(|number| RedisKeyName::new(&prefix, number.to_string().as_bytes()));
        let key = keys.find(|key| self.transport.slot(key.tag()) == slot)?.bytes;
        let limit = prepare(SCOPE, quota, LimitOptions::default(), RedisLimitData::of_policy(prefix)).ok()?;
        Some(Call { ops: smallvec![ScriptOp::Force { target: Target { key, limit }, cost: 1 }] })
    }
}
