//! Which families of algorithms have counted in a scope.
//!
//! Each family keeps its states in a table of its own. When the algorithm of a
//! limit changes, what a key has used is still in the table of the family
//! before: the store has to look there, but only for scopes where that can be.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_core::Family;

/// The families between which counts are carried over. Permits have holders, and are counted apart.
pub(crate) const CARRIED: [Family; 4] =
    [Family::Bucket, Family::FixedWindow, Family::SlidingCounter, Family::SlidingLog];

/// The families that have counted in one scope, a bit each.
#[derive(Debug)]
pub(crate) struct Families(AtomicU8);

impl Families {
    /// Those beside `own` that a key of `own` may have been counted by.
    pub(crate) fn others(&self, own: Family) -> u8 {
        self.0.load(Ordering::Relaxed) & !(own as u8)
    }
}

/// The families of all scopes of a store.
#[derive(Debug, Default)]
pub(crate) struct ScopeFamilies {
    scopes: Mutex<HashMap<Box<str>, Arc<Families>>>,
    /// The families of what was restored. A snapshot does not know scopes, so it may be any scope's.
    restored: AtomicU8,
}

impl ScopeFamilies {
    /// Notes that a family counts in a scope from now on.
    pub(crate) fn note(&self, scope: &str, family: Family) -> Arc<Families> {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let restored = || Arc::new(Families(AtomicU8::new(self.restored.load(Ordering::Relaxed))));
        let families = scopes.entry(scope.into()).or_insert_with(restored);
        families.0.fetch_or(family as u8, Ordering::Relaxed);
        Arc::clone(families)
    }

    /// Notes that a family has counted in scopes which are not known yet.
    pub(crate) fn note_restored(&self, family: Family) {
        self.restored.fetch_or(family as u8, Ordering::Relaxed);
    }
}
