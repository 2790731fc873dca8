//! Servers, links to them, and all that can happen on the way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tollgate_core::Decision;

use super::InjectedFault;
use super::scenario::books::Books;
use super::shard::{Deed, Shard};
use crate::call::{Call, Reply, Target};
use crate::store::random::Random;
use crate::transport::{Cause, Done, Executed, ShardId, Slot, Transport, Trouble};
use crate::wire::MARGIN;

/// The server's clock at the beginning, in microseconds since 1970.
pub(super) const BEGAN_US: u64 = 1_700_000_000_000_000;

pub(super) struct World {
    pub(super) random: Random,
    pub(super) books: Books,
    shards: Vec<Shard>,
    /// What a replica of each shard has, which is a little old.
    replicas: Vec<Shard>,
    slots: u16,
    began: Instant,
    /// How many calls in a thousand meet a fault of their own.
    pub(super) faults_per_mille: u32,
    /// Which instance cannot reach which shard, and until when.
    partitions: Vec<(usize, usize, Instant)>,
    fault: Option<InjectedFault>,
    /// Whether the answer to a call is being handed out to its callers.
    pub(super) is_handing_out: bool,
    /// Whether a caller gives something back.
    pub(super) is_giving_back: bool,
    /// When the last call of an instance to a shard has arrived there.
    last_sent: HashMap<(usize, usize), oneshot::Receiver<()>>,
}

pub(super) type SharedWorld = Arc<Mutex<World>>;

pub(super) fn locked(world: &SharedWorld) -> MutexGuard<'_, World> {
    world.lock().unwrap()
}

/// What happens to one call.
#[derive(Clone, Copy, Debug)]
struct Fate {
    /// Until it reaches the server; `None` if it never does.
    there: Option<Duration>,
    /// From there until it is heard again.
    back: Duration,
    heard: Heard,
    /// The outcome is known before the server executes the call: `back` after it was sent.
    is_heard_first: bool,
}

#[derive(Clone, Copy, Debug)]
enum Heard {
    Answer,
    Trouble(Trouble),
    /// The one who should tell is gone.
    Dropped,
}

impl World {
    pub(super) fn new(
        random: Random,
        shards: usize,
        slots: u16,
        faults_per_mille: u32,
        fault: Option<InjectedFault>,
    ) -> World {
        World {
            random,
            books: Books::default(),
            shards: vec![Shard::default(); shards],
            replicas: vec![Shard::default(); shards],
            slots,
            began: Instant::now(),
            faults_per_mille,
            partitions: Vec::new(),
            fault,
            is_handing_out: false,
            is_giving_back: false,
            last_sent: HashMap::new(),
        }
    }

    pub(super) fn now_us(&self) -> u64 {
        BEGAN_US + self.began.elapsed().as_micros() as u64
    }

    pub(super) fn slot(&self, tag: &[u8]) -> Slot {
        let mixed = tag.iter().fold(7_u32, |mixed, byte| mixed.wrapping_mul(31).wrapping_add(u32::from(*byte)));
        Slot((mixed % u32::from(self.slots)) as u16)
    }

    fn shard_of(&self, slot: Slot) -> usize {
        usize::from(slot.0) % self.shards.len()
    }

    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// What a server would say of a charge now, in microseconds.
    pub(super) fn stands(&mut self, slot: Slot, target: &Target, cost: u64) -> Decision {
        let (shard, now) = (self.shard_of(slot), self.now_us());
        self.shards[shard].stands(target, cost, now)
    }

    /// Who goes before a call on the way from an instance to a shard, and how the next hears that it has arrived: what
    /// was sent first on a connection arrives first.
    fn queue_up(&mut self, instance: usize, shard: usize) -> Turn {
        let (arrived, hears) = oneshot::channel();
        (self.last_sent.insert((instance, shard), hears), arrived)
    }

    /// A server begins anew with nothing.
    pub(super) fn restart(&mut self, shard: usize) {
        self.shards[shard] = Shard::default();
        // Which keys live there is told by their tags; a few too many do no harm.
        self.books.lost();
    }

    /// A replica takes over, without the last writes.
    pub(super) fn fail_over(&mut self, shard: usize) {
        self.shards[shard] = self.replicas[shard].clone();
        // Which keys live there is told by their tags; a few too many do no harm.
        self.books.lost();
    }

    pub(super) fn replicate(&mut self) {
        self.replicas = self.shards.clone();
    }

    pub(super) fn part(&mut self, instance: usize, shard: usize, lasts: Duration) {
        self.partitions.push((instance, shard, Instant::now() + lasts));
    }

    pub(super) fn heal(&mut self) {
        self.faults_per_mille = 0;
        self.partitions.clear();
    }

    fn ms(&mut self, from: u32, to: u32) -> Duration {
        Duration::from_millis(u64::from(from + self.random.below(to - from + 1)))
    }

    fn fate(&mut self, instance: usize, shard: usize) -> Fate {
        let now = Instant::now();
        let is_parted = self.partitions.iter().any(|part| (part.0, part.1) == (instance, shard) && now < part.2);
        let (there, back) = (self.ms(0, 4), self.ms(0, 4));
        let healthy = Fate { there: Some(there), back, heard: Heard::Answer, is_heard_first: false };
        let never = |executed: Executed| Heard::Trouble(Trouble { cause: Cause::Connection, executed });
        if is_parted {
            return match self.random.below(3) {
                0 => Fate { there: None, back: self.ms(1, 100), heard: never(Executed::Unknown), ..healthy },
                _ => Fate { there: None, back: self.ms(0, 3), heard: never(Executed::No), ..healthy },
            };
        }
        if self.random.below(1_000) >= self.faults_per_mille {
            return healthy;
        }
        match self.random.below(9) {
            // Not sent.
            0 => Fate { there: None, back: Duration::ZERO, heard: never(Executed::No), ..healthy },
            1 => Fate { there: None, back: self.ms(1, 10), heard: never(Executed::No), ..healthy },
            // Lost on the way there.
            2 => Fate { there: None, back: self.ms(1, 300), heard: never(Executed::Unknown), ..healthy },
            // Lost on the way back.
            3 => Fate { back: self.ms(1, 300), heard: never(Executed::Unknown), ..healthy },
            4 => Fate { back: self.ms(1, 50), heard: Heard::Dropped, ..healthy },
            // Late, on the way back or there.
            5 => Fate { back: self.ms(12, 40), ..healthy },
            6 => Fate { back: self.ms(50, 500), ..healthy },
            7 => Fate { there: Some(self.ms(21, 200)), ..healthy },
            // The server stalls, the connection is closed, and then the server reads what it was sent.
            _ => Fate {
                there: Some(self.ms(21, 400)),
                back: self.ms(1, 100),
                heard: never(Executed::Unknown),
                is_heard_first: true,
            },
        }
    }
}

/// An instance's way to the servers.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) world: SharedWorld,
    pub(super) instance: usize,
}

impl Transport for Link {
    fn send(&self, slot: Slot, call: Call, deadline: Instant, done: Done) {
        let fault = locked(&self.world).fault;
        match fault {
            Some(fault) => self.send_faulty(fault, slot, call, deadline, done),
            None => self.send_call(slot, call, deadline, done),
        }
    }

    fn slot(&self, tag: &[u8]) -> Slot {
        locked(&self.world).slot(tag)
    }

    fn shard(&self, slot: Slot) -> ShardId {
        ShardId(locked(&self.world).shard_of(slot) as u32)
    }
}

impl Link {
    pub(super) fn send_call(&self, slot: Slot, call: Call, deadline: Instant, done: Done) {
        let (fate, turn) = {
            let mut world = locked(&self.world);
            world.books.sent(self.instance, &call);
            let shard = world.shard_of(slot);
            let fate = world.fate(self.instance, shard);
            // A call that is late beyond every deadline is on a connection of its own.
            let is_on_time = fate.there.is_some_and(|there| there <= Duration::from_millis(20));
            (fate, is_on_time.then(|| world.queue_up(self.instance, shard)))
        };
        let (world, instance) = (Arc::clone(&self.world), self.instance);
        if let (None, true, Heard::Trouble(trouble)) = (fate.there, fate.back.is_zero(), fate.heard) {
            // Some failures are known before `send` returns.
            locked(&world).books.failed(instance, &call, trouble.executed);
            return done.hear(Err(trouble));
        }
        tokio::spawn(Passage { world, instance, slot, call, deadline, fate }.carry(turn, done));
    }
}

/// Who goes before a call, and how the next hears that it has arrived.
type Turn = (Option<oneshot::Receiver<()>>, oneshot::Sender<()>);

/// A call on its way.
#[derive(Clone)]
struct Passage {
    world: SharedWorld,
    instance: usize,
    slot: Slot,
    call: Call,
    deadline: Instant,
    fate: Fate,
}

impl Passage {
    async fn carry(self, turn: Option<Turn>, done: Done) {
        let mut reached = (None, Vec::new());
        match self.fate.there {
            Some(there) if self.fate.is_heard_first => {
                tokio::spawn(self.clone().reach(there, turn));
            }
            Some(there) => reached = self.clone().reach(there, turn).await,
            None => {}
        }
        sleep(self.fate.back).await;
        let too_late = Trouble { cause: Cause::Timeout, executed: Executed::No };
        let heard = match (self.fate.heard, reached) {
            (Heard::Answer, (Some(reply), deeds)) => {
                locked(&self.world).books.told(self.instance, &deeds);
                return done.hear(Ok(reply));
            }
            (Heard::Dropped, _) => return drop(done),
            (Heard::Trouble(trouble), _) => trouble,
            (Heard::Answer, (None, _)) => too_late,
        };
        locked(&self.world).books.failed(self.instance, &self.call, heard.executed);
        done.hear(Err(heard));
    }

    /// The server carries it out, unless it has expired.
    async fn reach(self, there: Duration, turn: Option<Turn>) -> (Option<Reply>, Vec<Deed>) {
        sleep(there).await;
        // Dropped, it lets the next one go.
        let mut _arrived = None;
        if let Some((before, arrived)) = turn {
            if let Some(before) = before {
                // A call that is lost holds up no other.
                let _ = before.await;
            }
            _arrived = Some(arrived);
        }
        let mut deeds = Vec::new();
        let mut world = locked(&self.world);
        let is_late = self.call.expires() && Instant::now() > self.deadline + MARGIN;
        if is_late && world.fault != Some(InjectedFault::RunExpired) {
            return (None, deeds);
        }
        let (shard, now) = (world.shard_of(self.slot), world.now_us());
        let reply = world.shards[shard].execute(&self.call, now, &mut deeds);
        world.books.executed(self.instance, &deeds);
        let is_charged = deeds.iter().any(|deed| matches!(deed, Deed::Charged { .. }));
        if is_late && is_charged && !matches!(self.fate.heard, Heard::Answer) {
            world.books.violate(format!("{} charges what it has given up, and does not hear of it", self.instance));
        }
        (Some(reply), deeds)
    }
}
