//! What is asked of one slot, and what comes back for one who asked.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tollgate_core::Decision;
use tollgate_store::{KeyedCharge, Mode};

use super::breakers::Watch;
use super::failure::Failure;
use super::key_names::KeyName;
use super::limit::RedisLimit;
use super::made::Made;
use crate::call::{SlotCharge, Target, View};
use crate::script::{Replayed, replay_unmade};
use crate::transport::{Slot, Transport};

/// Charges of one request that live in one slot.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) slot: Slot,
    pub(super) charges: SmallVec<[SlotCharge; 4]>,
    /// Under which limit, and the key as it was given, for each charge.
    pub(super) origins: SmallVec<[Origin; 4]>,
    /// Where each charge stands in the request.
    pub(super) positions: SmallVec<[usize; 4]>,
    /// Filled in when it is on its way.
    pub(super) watch: OnceLock<Arc<Watch>>,
}

#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) limit: RedisLimit,
    pub(super) key: Box<[u8]>,
}

impl Question {
    /// Charges by slot, in the order in which the slots come up.
    pub(super) fn by_slot<T: Transport>(
        transport: &T,
        charges: &[KeyedCharge<'_, RedisLimit>],
    ) -> SmallVec<[Arc<Question>; 2]> {
        let mut questions: SmallVec<[Arc<Question>; 2]> = SmallVec::new();
        for (position, asked) in charges.iter().enumerate() {
            let name = KeyName::new(&asked.limit.0.prefix_and_scope, asked.key);
            let slot = transport.slot(name.tag());
            let at = questions.iter().position(|question| question.slot == slot).unwrap_or_else(|| {
                questions.push(Arc::new(Question::empty(slot)));
                questions.len() - 1
            });
            let target = Target { key: name.bytes, terms: Arc::clone(&asked.limit.0.terms) };
            let Some(question) = Arc::get_mut(&mut questions[at]) else {
                unreachable!("nobody else has a question that is not complete");
            };
            // Without a key, the limits of a rule may live in different slots.
            let follows = position > 0 && question.positions.last() == Some(&(position - 1));
            let mode = if asked.mode == Mode::ShadowJoined && !follows { Mode::Shadow } else { asked.mode };
            question.charges.push(SlotCharge { target, cost: asked.cost, mode });
            question.origins.push(Origin { limit: asked.limit.clone(), key: asked.key.into() });
            question.positions.push(position);
        }
        questions
    }

    fn empty(slot: Slot) -> Question {
        let (charges, origins, positions) = (SmallVec::new(), SmallVec::new(), SmallVec::new());
        Question { slot, charges, origins, positions, watch: OnceLock::new() }
    }

    /// What another question must be like to travel with this one.
    pub(super) fn group(&self) -> Group {
        let alike = |(charge, origin): (&SlotCharge, &Origin)| Alike {
            key: Arc::clone(&charge.target.key),
            limit: origin.limit.id(),
            cost: charge.cost,
            mode: match charge.mode {
                Mode::Enforce => 0,
                Mode::Guard => 1,
                Mode::Shadow => 2,
                Mode::Watch => 3,
                Mode::ShadowJoined => 4,
            },
        };
        Group { slot: self.slot, charges: self.charges.iter().zip(&self.origins).map(alike).collect() }
    }
}

/// Questions of one group are the same question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    slot: Slot,
    charges: SmallVec<[Alike; 2]>,
}

impl Group {
    /// The key of the first charge, or nothing.
    pub(super) fn first_key(&self) -> &[u8] {
        self.charges.first().map_or(&[], |alike| &alike.key)
    }
}

impl Hash for Group {
    /// What tells groups apart: the rest is the same for the same keys, or nearly always.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        for alike in &self.charges {
            hasher.write(&alike.key);
            hasher.write_u64(alike.cost);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Alike {
    key: Arc<[u8]>,
    limit: u64,
    cost: u64,
    mode: u8,
}

/// Somebody who asked and waits.
pub(super) struct Asker<T: Transport> {
    pub(super) question: Arc<Question>,
    pub(super) answer: oneshot::Sender<SlotAnswer<T>>,
    pub(super) deadline: Instant,
}

/// Those who travel together. Most travel alone.
pub(super) type Askers<T> = SmallVec<[Asker<T>; 1]>;

/// Large, and handed on several times: so it is on the heap.
pub(super) type SlotAnswer<T> = Result<Box<Answer<T>>, Failure>;

/// The answer of a slot to one of those who asked together.
pub(super) struct Answer<T: Transport> {
    pub(super) passed: bool,
    pub(super) replayed: Replayed,
    /// What was charged for it. Dropped, it is given back.
    pub(super) made: Made<T>,
    /// How many of the same call were answered before it.
    pub(super) index: u32,
    pub(super) seen: Arc<Seen>,
}

/// What a slot's keys looked like.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) now: u64,
    pub(super) views: SmallVec<[View; 4]>,
}

impl<T: Transport> Answer<T> {
    /// What is said of the charges where they are not made after all, because another slot refused.
    pub(super) fn decisions_unmade(&self, charges: &[SlotCharge]) -> SmallVec<[Decision; 4]> {
        if !self.passed {
            return self.replayed.decisions.clone();
        }
        let unmade = replay_unmade(charges, self.seen.now, &self.seen.views, self.index);
        unmade.unwrap_or_else(|_| self.replayed.decisions.clone())
    }
}
