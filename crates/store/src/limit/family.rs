//! The families of algorithms that have counted in a scope.
//!
//! Each family has its own table of states. When the algorithm of a limit changes, the used amount of a key is still in
//! the table of the previous family: the store has to search there, but only for scopes where that is possible.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_core::Family;

/// The families between which counts are carried over. Permits have holders, and are counted separately.
pub(crate) const CARRIED: [Family; 4] =
    [Family::Bucket, Family::FixedWindow, Family::SlidingCounter, Family::SlidingLog];

/// The families that have counted in one scope, one bit each.
#[derive(Debug)]
pub(crate) struct Families(AtomicU8);

impl Families {
    /// Returns the families other than `own` that may have counted a key of this scope.
    pub(crate) fn others(&self, own: Family) -> u8 {
        self.0.load(Ordering::Relaxed) & !(own as u8)
    }
}

/// The families of all scopes of a store.
#[derive(Debug, Default)]
pub(crate) struct ScopeFamilies {
    scopes: Mutex<HashMap<Box<str>, Arc<Families>>>,
    /// The families of restored states. A snapshot does not contain scopes, so they may belong to any scope.
    restored: AtomicU8,
}

impl ScopeFamilies {
    /// Records that a family counts in a scope from now on.
    pub(crate) fn note(&self, scope: &str, family: Family) -> Arc<Families> {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let restored = || Arc::new(Families(AtomicU8::new(self.restored.load(Ordering::Relaxed))));
        let families = scopes.entry(scope.into()).or_insert_with(restored);
        families.0.fetch_or(family as u8, Ordering::Relaxed);
        Arc::clone(families)
    }

    /// Records that a family has counted in scopes that are not known yet.
    pub(crate) fn note_restored(&self, family: Family) {
        self.restored.fetch_or(family as u8, Ordering::Relaxed);
    }
}
