use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate::{Limit, Quota};

/// Limits by their quotas. It only grows, so a quota stays at its place.
#[derive(Clone, Default)]
pub(super) struct LimitList {
    list: Vec<(Quota, Limit)>,
    places: HashMap<Quota, usize, RandomState>,
}

/// A quota that a caller brings along, and where it was found last: a caller
/// nearly always comes back with the same, and looking there is sooner done than hashing it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedQuota {
    pub(super) quota: Quota,
    place: usize,
}

impl AskedQuota {
    pub(crate) fn new(quota: Quota) -> AskedQuota {
        AskedQuota { quota, place: 0 }
    }

    pub(crate) fn quota(&self) -> &Quota {
        &self.quota
    }
}

impl LimitList {
    #[inline]
    pub(super) fn find(&self, asked: &mut AskedQuota) -> Option<&Limit> {
        match self.list.get(asked.place) {
            Some((quota, limit)) if *quota == asked.quota => Some(limit),
            _ => self.look_up(asked),
        }
    }

    fn look_up(&self, asked: &mut AskedQuota) -> Option<&Limit> {
        asked.place = *self.places.get(&asked.quota)?;
        self.list.get(asked.place).map(|(_, limit)| limit)
    }

    pub(super) fn contains(&self, quota: &Quota) -> bool {
        self.places.contains_key(quota)
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Adds one that is not there.
    pub(super) fn add(&mut self, quota: Quota, limit: Limit) {
        self.places.insert(quota, self.list.len());
        self.list.push((quota, limit));
    }
}
