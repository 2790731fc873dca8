//! Resets of keys by an operator, on the servers and in this instance.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use smallvec::smallvec;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tollgate_store::{ChangeError, Limit};

use crate::call::{ScriptOp, ScriptOps, Target};
use crate::overrides::ResetKey;
use crate::store::Inner;
use crate::store::key_names::RedisKeyName;
use crate::store::limit::RedisLimitData;
use crate::transport::Slot;

impl Inner {
    /// Resets keys on the servers and in this process, but not in other instances. Returns the keys to announce to
    /// them.
    pub(crate) async fn reset_keys(self: &Arc<Self>, keys: &[(&Limit, &[u8])]) -> Result<Vec<ResetKey>, ChangeError> {
        let mut resets: Vec<ResetKey> = Vec::new();
        let mut slots: Vec<(Slot, ScriptOps)> = Vec::new();
        for (limit, key) in keys {
            let reset =
                ResetKey { prefix_and_scope: RedisLimitData::of(limit).prefix_and_scope.clone(), key: (*key).into() };
            // Limits that share a scope share the key.
            if resets.contains(&reset) {
                continue;
            }
            let (slot, target) = self.target(limit, key);
            let op = ScriptOp::Reset { target };
            match slots.iter_mut().find(|(known, _)| *known == slot) {
                Some((_, ops)) => ops.push(op),
                None => slots.push((slot, smallvec![op])),
            }
            resets.push(reset);
        }
        let mut answers = Vec::with_capacity(slots.len());
        for (slot, ops) in slots {
            let (sender, answer) = oneshot::channel();
            let keys = resets.iter().map(|reset| reset.key.clone()).collect();
            self.send_adjustment(slot, ops, keys, move |_, answered| {
                // Fails only if the caller has stopped waiting.
                let _ = sender.send(answered.is_ok());
            });
            answers.push(answer);
        }
        let deadline = Instant::now() + self.settings.background_deadline * 2;
        for answer in answers {
            match timeout_at(deadline, answer).await {
                Ok(Ok(true)) => {}
                _ => return Err(ChangeError::Timeout),
            }
        }
        resets.iter().for_each(|reset| self.drop_local_state(reset));
        Ok(resets)
    }

    /// Drops the local state of a key that was reset: its debt (without charging it), its local count and its cached
    /// refusals.
    pub(crate) fn drop_local_state(&self, reset: &ResetKey) {
        let ResetKey { prefix_and_scope, key } = reset;
        let now = Instant::now();
        let _ = self.debts.take(&RedisKeyName::new(prefix_and_scope, key).bytes, now);
        if let Some(limit) = self.fallback_scopes().get(prefix_and_scope) {
            self.fallback.reset(limit, &**key);
        }
        self.refusals.remove(key, now);
        self.leases.forget_refusals(key);
    }

    /// Returns the slot of a key, and the key as the target of an operation.
    pub(crate) fn target(&self, limit: &Limit, key: &[u8]) -> (Slot, Target) {
        let name = RedisKeyName::new(&RedisLimitData::of(limit).prefix_and_scope, key);
        let slot = self.transport.slot(name.tag());
        (slot, Target { key: name.bytes, limit: limit.clone() })
    }

    /// Stores the newest fallback limit of a scope, by which a reset finds the keys of that scope.
    pub(in crate::store) fn register_fallback(&self, data: &RedisLimitData) {
        if let Some(limit) = &data.fallback {
            self.fallback_scopes().insert(data.prefix_and_scope.clone(), limit.clone());
        }
    }

    fn fallback_scopes(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Limit>> {
        self.fallback_scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
