//! Keys that an operator makes as if untouched, here and on other instances.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use smallvec::smallvec;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tollgate_store::{ChangeError, Limit};

use crate::call::{Line, Lines, Target};
use crate::overrides::ResetKey;
use crate::store::Inner;
use crate::store::key_names::KeyName;
use crate::store::limit::SharedLimit;
use crate::transport::Slot;

impl Inner {
    /// Makes keys as if untouched on the servers and in this process. Returns what other instances must be told.
    pub(crate) async fn reset_here(self: &Arc<Self>, keys: &[(&Limit, &[u8])]) -> Result<Vec<ResetKey>, ChangeError> {
        let mut told: Vec<ResetKey> = Vec::new();
        let mut slots: Vec<(Slot, Lines)> = Vec::new();
        for (limit, key) in keys {
            let reset =
                ResetKey { prefix_and_scope: SharedLimit::of(limit).prefix_and_scope.clone(), key: (*key).into() };
            // Limits that share a scope share the key.
            if told.contains(&reset) {
                continue;
            }
            let (slot, target) = self.target(limit, key);
            let line = Line::Reset { target };
            match slots.iter_mut().find(|(known, _)| *known == slot) {
                Some((_, lines)) => lines.push(line),
                None => slots.push((slot, smallvec![line])),
            }
            told.push(reset);
        }
        let mut answers = Vec::with_capacity(slots.len());
        for (slot, lines) in slots {
            let (heard, answer) = oneshot::channel();
            let forgotten = told.iter().map(|reset| reset.key.clone()).collect();
            self.send_refund(slot, lines, forgotten, move |_, answered| {
                // Who does not wait any more does not want to know.
                let _ = heard.send(answered.is_ok());
            });
            answers.push(answer);
        }
        let deadline = Instant::now() + self.settings.background_deadline * 2;
        for answer in answers {
            match timeout_at(deadline, answer).await {
                Ok(Ok(true)) => {}
                _ => return Err(ChangeError::NoAnswer),
            }
        }
        told.iter().for_each(|reset| self.was_reset_elsewhere(reset));
        Ok(told)
    }

    /// A key was made as if untouched: what is remembered of it here is not true any more.
    pub(crate) fn was_reset_elsewhere(&self, reset: &ResetKey) {
        let ResetKey { prefix_and_scope, key } = reset;
        let now = Instant::now();
        // What passed uncounted is forgiven too.
        let _ = self.debts.take(&KeyName::new(prefix_and_scope, key).bytes, now);
        if let Some(limit) = self.fallback_scopes().get(prefix_and_scope) {
            self.fallback.reset(limit, &**key);
        }
        self.refusals.forget(key, now);
    }

    /// Where a key lives, and what it is called there.
    pub(crate) fn target(&self, limit: &Limit, key: &[u8]) -> (Slot, Target) {
        let name = KeyName::new(&SharedLimit::of(limit).prefix_and_scope, key);
        let slot = self.transport.slot(name.tag());
        (slot, Target { key: name.bytes, limit: limit.clone() })
    }

    /// The newest limit of a scope: by it a key of that scope is found.
    pub(in crate::store) fn note_fallback(&self, shared: &SharedLimit) {
        if let Some(limit) = &shared.fallback {
            self.fallback_scopes().insert(shared.prefix_and_scope.clone(), limit.clone());
        }
    }

    fn fallback_scopes(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Limit>> {
        self.fallback_scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
