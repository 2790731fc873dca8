//! Who travels with whom: of questions alike one is under way, and the others
//! wait until it is back. Then they travel together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::smallvec;
use tokio::time::Instant;

use super::breakers::Watch;
use super::part_of::part_of;
use super::question::{Asker, Askers, Group};
use crate::transport::Transport;

const PARTS: usize = 16;

/// A script holds up everybody else, so no more than this travel together.
const MOST_TOGETHER: usize = 1_000;

pub(super) struct Lanes<T: Transport> {
    parts: Vec<Mutex<HashMap<Group, Lane<T>>>>,
}

/// A lane exists while something travels on it.
struct Lane<T: Transport> {
    /// Which journey is under way. One that was given up does not free the lane a second time.
    journey: u64,
    ends: Instant,
    watch: Option<Arc<Watch>>,
    waiting: Vec<Asker<T>>,
}

/// Those who travel next.
pub(super) struct Journey<T: Transport> {
    pub(super) group: Group,
    pub(super) number: u64,
    pub(super) askers: Askers<T>,
}

/// A journey that nobody waits for any longer, and the one that begins instead.
pub(super) struct Overdue<T: Transport> {
    pub(super) watch: Option<Arc<Watch>>,
    pub(super) journey: Option<Journey<T>>,
}

/// What became of somebody who came to a lane.
pub(super) enum Joined<T: Transport> {
    /// The lane was free.
    Departs(Journey<T>),
    /// Waits for the journey under way, which ends by then.
    Waits { group: Group, ends: Instant },
}

impl<T: Transport> Lanes<T> {
    pub(super) fn new() -> Lanes<T> {
        Lanes { parts: (0..PARTS).map(|_| Mutex::default()).collect() }
    }

    pub(super) fn join(&self, asker: Asker<T>) -> Joined<T> {
        let group = asker.question.group();
        let mut part = self.part(&group);
        if let Some(lane) = part.get_mut(&group) {
            lane.waiting.push(asker);
            let ends = lane.ends;
            drop(part);
            return Joined::Waits { group, ends };
        }
        let lane = Lane { journey: 0, ends: asker.deadline, watch: None, waiting: Vec::new() };
        part.insert(group.clone(), lane);
        Joined::Departs(Journey { group, number: 0, askers: smallvec![asker] })
    }

    /// The journey is on its way.
    pub(super) fn departed(&self, group: &Group, number: u64, watch: &Arc<Watch>) {
        if let Some(lane) = self.part(group).get_mut(group).filter(|lane| lane.journey == number) {
            lane.watch = Some(Arc::clone(watch));
        }
    }

    /// The journey is over: the next may begin.
    pub(super) fn arrived(&self, group: &Group, number: u64) -> Option<Journey<T>> {
        let mut part = self.part(group);
        let lane = part.get_mut(group).filter(|lane| lane.journey == number)?;
        let journey = lane.next(group);
        if journey.is_none() {
            part.remove(group);
        }
        journey
    }

    /// The journey should be over. If it is overdue, those who wait do not wait
    /// for it any longer, and what was under way is returned too.
    pub(super) fn overdue(&self, group: &Group, now: Instant) -> Option<Overdue<T>> {
        let mut part = self.part(group);
        let lane = part.get_mut(group).filter(|lane| lane.ends <= now)?;
        let watch = lane.watch.take();
        let journey = lane.next(group);
        if journey.is_none() {
            part.remove(group);
        }
        Some(Overdue { watch, journey })
    }

    fn part(&self, group: &Group) -> MutexGuard<'_, HashMap<Group, Lane<T>>> {
        self.parts[part_of(group.first_key(), PARTS)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Transport> Lane<T> {
    fn next(&mut self, group: &Group) -> Option<Journey<T>> {
        // Who has given up is not charged in the first place.
        self.waiting.retain(|asker| !asker.answer.is_closed());
        let count = self.waiting.len().min(MOST_TOGETHER);
        let askers: Askers<T> = self.waiting.drain(..count).collect();
        self.ends = askers.iter().map(|asker| asker.deadline).max()?;
        self.journey += 1;
        self.watch = None;
        Some(Journey { group: group.clone(), number: self.journey, askers })
    }
}
