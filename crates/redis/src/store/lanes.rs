//! Which checks travel in one call: checks alike that come while a call is under way wait for a moment, and then
//! travel together.
//!
//! They wait until it is back, and no longer than a small part of their time ([`Lanes::new`]): on a server that is far
//! away a call takes most of the deadline, and a check that waited for another's would have no time left for its own.
//! So several calls of one lane may be under way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smallvec::{SmallVec, smallvec};
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
    /// How long a check waits for another's call at most.
    patience: Duration,
    numbers: AtomicU64,
}

/// A lane exists while something travels on it.
struct Lane<T: Transport> {
    /// Tells it from those that were there before.
    number: u64,
    /// The calls under way, oldest first.
    under_way: SmallVec<[UnderWay; 2]>,
    /// When the last of them set out.
    departed_at: Instant,
    waiting: Vec<Asker<T>>,
    /// Whether there is a timer for those who wait.
    is_timed: bool,
}

struct UnderWay {
    number: u64,
    ends: Instant,
    watch: Option<Arc<Watch>>,
}

/// Those who travel in one call.
pub(super) struct Journey<T: Transport> {
    pub(super) group: Group,
    pub(super) number: u64,
    pub(super) askers: Askers<T>,
}

/// All who set out now, and calls that are overdue.
pub(super) struct Departure<T: Transport> {
    pub(super) journeys: SmallVec<[Journey<T>; 1]>,
    pub(super) overdue: SmallVec<[Arc<Watch>; 1]>,
}

/// When those who wait on a lane set out at the latest.
pub(super) struct Timer {
    pub(super) group: Group,
    lane: u64,
    pub(super) due: Instant,
}

/// What became of a check that came to a lane.
pub(super) enum Joined<T: Transport> {
    Departs(Departure<T>),
    /// It waits. If it is the first, the caller must start a timer.
    Waits(Option<Timer>),
}

impl<T: Transport> Lanes<T> {
    /// Lanes on which a check waits for another's call for a twentieth of the time that it has: that much of a
    /// deadline is lost to joining at most, and at most about twenty calls of a lane are under way.
    pub(super) fn new(deadline: Duration) -> Lanes<T> {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Lanes { parts, patience: deadline / 20, numbers: AtomicU64::new(0) }
    }

    pub(super) fn join(&self, asker: Asker<T>, now: Instant) -> Joined<T> {
        let group = asker.question.group();
        let mut part = self.part(&group);
        let Some(lane) = part.get_mut(&group) else {
            let number = self.next();
            let under_way = smallvec![UnderWay { number, ends: asker.deadline, watch: None }];
            let lane = Lane { number, under_way, departed_at: now, waiting: Vec::new(), is_timed: false };
            part.insert(group.clone(), lane);
            let journeys = smallvec![Journey { group, number, askers: smallvec![asker] }];
            return Joined::Departs(Departure { journeys, overdue: SmallVec::new() });
        };
        lane.waiting.push(asker);
        let due = lane.departed_at + self.patience;
        if due <= now {
            return Joined::Departs(self.depart(&group, lane, now));
        }
        let is_first = !std::mem::replace(&mut lane.is_timed, true);
        Joined::Waits(is_first.then(|| Timer { group: group.clone(), lane: lane.number, due }))
    }

    /// A call is on its way.
    pub(super) fn departed(&self, group: &Group, number: u64, watch: &Arc<Watch>) {
        if let Some(call) = self.part(group).get_mut(group).and_then(|lane| lane.call(number)) {
            call.watch = Some(Arc::clone(watch));
        }
    }

    /// A call is over. If it was the only one under way, those who wait set out.
    pub(super) fn arrived(&self, group: &Group, number: u64, now: Instant) -> Option<Departure<T>> {
        let mut part = self.part(group);
        let lane = part.get_mut(group)?;
        lane.under_way.retain(|call| call.number != number);
        if !lane.under_way.is_empty() {
            return None;
        }
        let departure = self.depart(group, lane, now);
        if lane.under_way.is_empty() {
            part.remove(group);
        }
        Some(departure)
    }

    /// Some may have waited long enough. Returns who sets out, and when to look again.
    pub(super) fn due(&self, timer: &Timer, now: Instant) -> (Option<Departure<T>>, Option<Instant>) {
        let mut part = self.part(&timer.group);
        let Some(lane) = part.get_mut(&timer.group).filter(|lane| lane.number == timer.lane) else {
            return (None, None);
        };
        let due = lane.departed_at + self.patience;
        if due > now && !lane.waiting.is_empty() {
            return (None, Some(due));
        }
        lane.is_timed = false;
        let departure = self.depart(&timer.group, lane, now);
        if lane.under_way.is_empty() {
            part.remove(&timer.group);
        }
        (Some(departure), None)
    }

    /// All waiting checks set out. Calls that are overdue are taken off the lane.
    fn depart(&self, group: &Group, lane: &mut Lane<T>, now: Instant) -> Departure<T> {
        let mut overdue = SmallVec::new();
        lane.under_way.retain(|call| {
            let is_over = call.ends <= now;
            overdue.extend(call.watch.take_if(|_| is_over));
            !is_over
        });
        // Who has given up is not charged in the first place.
        lane.waiting.retain(|asker| !asker.answer.is_closed());
        let mut journeys = SmallVec::new();
        while !lane.waiting.is_empty() {
            let count = lane.waiting.len().min(MOST_TOGETHER);
            let askers: Askers<T> = lane.waiting.drain(..count).collect();
            let (number, ends) = (self.next(), askers.iter().map(|asker| asker.deadline).max().unwrap_or(now));
            lane.under_way.push(UnderWay { number, ends, watch: None });
            lane.departed_at = now;
            journeys.push(Journey { group: group.clone(), number, askers });
        }
        Departure { journeys, overdue }
    }

    fn next(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn part(&self, group: &Group) -> MutexGuard<'_, HashMap<Group, Lane<T>>> {
        self.parts[part_of(group.first_key(), PARTS)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Transport> Lane<T> {
    fn call(&mut self, number: u64) -> Option<&mut UnderWay> {
        self.under_way.iter_mut().find(|call| call.number == number)
    }
}
