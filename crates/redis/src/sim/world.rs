//! The simulated servers, the links to them, and the failures of both.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tollgate_core::Decision;

use super::InjectedFault;
use super::scenario::ledger::Ledger;
use super::shard::{Effect, Shard};
use crate::call::{Call, ScriptReply, Target};
use crate::store::random::Random;
use crate::transport::{CallError, Cause, Done, Executed, ShardId, Slot, Transport};
use crate::wire::MARGIN;

/// The servers' clock at the start, in microseconds since 1970.
pub(super) const BEGAN_US: u64 = 1_700_000_000_000_000;

pub(super) struct World {
    pub(super) random: Random,
    pub(super) ledger: Ledger,
    shards: Vec<Shard>,
    /// The replica of each shard, which lags behind.
    replicas: Vec<Shard>,
    slots: u16,
    started: Instant,
    /// How far the servers' clock was stepped, in microseconds.
    clock_offset_us: i64,
    /// Instances that are stopped, and until when.
    paused: HashMap<usize, Instant>,
    /// The number of calls in a thousand that fail by themselves.
    pub(super) faults_per_mille: u32,
    /// Partitions: an instance, a shard that it cannot reach, and the end.
    partitions: Vec<(usize, usize, Instant)>,
    fault: Option<InjectedFault>,
    /// Whether the answer to a call is being delivered to its callers.
    pub(super) is_delivering: bool,
    /// Whether a caller is making a refund.
    pub(super) is_caller_refunding: bool,
    /// Resolves when the last call of an instance to a shard has arrived.
    last_sent: HashMap<(usize, usize), oneshot::Receiver<()>>,
}

pub(super) type SharedWorld = Arc<Mutex<World>>;

pub(super) fn locked(world: &SharedWorld) -> MutexGuard<'_, World> {
    world.lock().unwrap()
}

/// The delivery of one call: delays and failure.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    /// The delay until it reaches the server; `None` if it never does.
    until_server: Option<Duration>,
    /// The delay from there until its result reaches the client.
    until_client: Duration,
    end: CallEnd,
    /// The client gets the result before the server executes the call: `until_client` after it was sent.
    fails_first: bool,
}

#[derive(Clone, Copy, Debug)]
enum CallEnd {
    Reply,
    CallError(CallError),
    /// `Done` is dropped without a result.
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
        let mut shard = Shard::default();
        shard.leases.fault = fault;
        World {
            random,
            ledger: Ledger::default(),
            shards: vec![shard.clone(); shards],
            replicas: vec![shard; shards],
            clock_offset_us: 0,
            paused: HashMap::new(),
            slots,
            started: Instant::now(),
            faults_per_mille,
            partitions: Vec::new(),
            fault,
            is_delivering: false,
            is_caller_refunding: false,
            last_sent: HashMap::new(),
        }
    }

    /// Returns the servers' clock.
    pub(super) fn now_us(&self) -> u64 {
        (BEGAN_US + self.true_us()).saturating_add_signed(self.clock_offset_us)
    }

    /// Returns the time since the start, which no step changes.
    pub(super) fn true_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    /// Returns the time since the start at which the servers' clock showed `server_us`, under its present offset.
    pub(super) fn true_us_at(&self, server_us: u64) -> u64 {
        server_us.saturating_add_signed(-self.clock_offset_us).saturating_sub(BEGAN_US)
    }

    /// Steps the clock of the servers.
    pub(super) fn step_clock(&mut self, by_us: i64) {
        self.clock_offset_us += by_us;
    }

    /// Stops an instance for a time: it neither sends nor receives anything.
    pub(super) fn pause(&mut self, instance: usize, lasts: Duration) {
        self.paused.insert(instance, Instant::now() + lasts);
    }

    pub(super) fn is_paused(&self, instance: usize) -> bool {
        self.paused.get(&instance).is_some_and(|until| Instant::now() < *until)
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

    /// Returns the decision of a server for a charge now, in microseconds.
    pub(super) fn peek(&mut self, slot: Slot, target: &Target, cost: u64) -> Decision {
        let (shard, now) = (self.shard_of(slot), self.now_us());
        self.shards[shard].peek(target, cost, now)
    }

    /// Returns the previous call from an instance to a shard, and the signal for the next one: calls on one connection
    /// arrive in the order in which they were sent.
    fn enqueue(&mut self, instance: usize, shard: usize) -> Turn {
        let (arrived, before) = oneshot::channel();
        (self.last_sent.insert((instance, shard), before), arrived)
    }

    /// Restarts a server without its data.
    pub(super) fn restart(&mut self, shard: usize) {
        let fault = self.shards[shard].leases.fault;
        self.shards[shard] = Shard::default();
        self.shards[shard].leases.fault = fault;
        // The keys of the shard are not looked up: recording the loss for all keys only weakens the checks.
        self.ledger.server_lost_data();
    }

    /// Promotes a replica, which lacks the last writes.
    pub(super) fn fail_over(&mut self, shard: usize) {
        self.shards[shard] = self.replicas[shard].clone();
        // The keys of the shard are not looked up: recording the loss for all keys only weakens the checks.
        self.ledger.server_lost_data();
    }

    pub(super) fn replicate(&mut self) {
        self.replicas = self.shards.clone();
    }

    pub(super) fn partition(&mut self, instance: usize, shard: usize, lasts: Duration) {
        self.partitions.push((instance, shard, Instant::now() + lasts));
    }

    pub(super) fn heal(&mut self) {
        self.faults_per_mille = 0;
        self.paused.clear();
        self.partitions.clear();
    }

    fn ms(&mut self, from: u32, to: u32) -> Duration {
        Duration::from_millis(u64::from(from + self.random.below(to - from + 1)))
    }

    fn delivery(&mut self, instance: usize, shard: usize) -> Delivery {
        let now = Instant::now();
        let is_partitioned = self.partitions.iter().any(|part| (part.0, part.1) == (instance, shard) && now < part.2);
        let (until_server, until_client) = (self.ms(0, 4), self.ms(0, 4));
        let healthy =
            Delivery { until_server: Some(until_server), until_client, end: CallEnd::Reply, fails_first: false };
        let never = |executed: Executed| CallEnd::CallError(CallError { cause: Cause::Connection, executed });
        if is_partitioned {
            return match self.random.below(3) {
                0 => Delivery {
                    until_server: None,
                    until_client: self.ms(1, 100),
                    end: never(Executed::Unknown),
                    ..healthy
                },
                _ => Delivery { until_server: None, until_client: self.ms(0, 3), end: never(Executed::No), ..healthy },
            };
        }
        if self.random.below(1_000) >= self.faults_per_mille {
            return healthy;
        }
        match self.random.below(9) {
            // Not sent.
            0 => Delivery { until_server: None, until_client: Duration::ZERO, end: never(Executed::No), ..healthy },
            1 => Delivery { until_server: None, until_client: self.ms(1, 10), end: never(Executed::No), ..healthy },
            // Lost on the way there.
            2 => {
                Delivery { until_server: None, until_client: self.ms(1, 300), end: never(Executed::Unknown), ..healthy }
            }
            // Lost on the way back.
            3 => Delivery { until_client: self.ms(1, 300), end: never(Executed::Unknown), ..healthy },
            4 => Delivery { until_client: self.ms(1, 50), end: CallEnd::Dropped, ..healthy },
            // Late, on the way back or there.
            5 => Delivery { until_client: self.ms(12, 40), ..healthy },
            6 => Delivery { until_client: self.ms(50, 500), ..healthy },
            7 => Delivery { until_server: Some(self.ms(21, 200)), ..healthy },
            // The server stalls, the connection is closed, and then the server reads what it was sent.
            _ => Delivery {
                until_server: Some(self.ms(21, 400)),
                until_client: self.ms(1, 100),
                end: never(Executed::Unknown),
                fails_first: true,
            },
        }
    }
}

/// The transport of an instance.
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
        let (delivery, turn) = {
            let mut world = locked(&self.world);
            world.ledger.record_call(self.instance, &call);
            let shard = world.shard_of(slot);
            let delivery = world.delivery(self.instance, shard);
            // A call that is later than every deadline has a separate connection.
            let is_on_time =
                delivery.until_server.is_some_and(|until_server| until_server <= Duration::from_millis(20));
            (delivery, is_on_time.then(|| world.enqueue(self.instance, shard)))
        };
        let (world, instance) = (Arc::clone(&self.world), self.instance);
        if let (None, true, CallEnd::CallError(error)) =
            (delivery.until_server, delivery.until_client.is_zero(), delivery.end)
        {
            // Some failures are known before `send` returns.
            locked(&world).ledger.record_failed_call(instance, &call, error.executed);
            return done.complete(Err(error));
        }
        tokio::spawn(CallInFlight { world, instance, slot, call, deadline, delivery }.run(turn, done));
    }
}

/// The arrival of the previous call, and the signal of this call's arrival.
type Turn = (Option<oneshot::Receiver<()>>, oneshot::Sender<()>);

/// A call in flight.
#[derive(Clone)]
struct CallInFlight {
    world: SharedWorld,
    instance: usize,
    slot: Slot,
    call: Call,
    deadline: Instant,
    delivery: Delivery,
}

impl CallInFlight {
    /// Waits while the instance is paused.
    async fn wait_while_paused(&self) {
        let until = locked(&self.world).paused.get(&self.instance).copied();
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }

    async fn run(self, turn: Option<Turn>, done: Done) {
        self.wait_while_paused().await;
        let mut executed_call = (None, Vec::new());
        match self.delivery.until_server {
            Some(until_server) if self.delivery.fails_first => {
                tokio::spawn(self.clone().execute(until_server, turn));
            }
            Some(until_server) => executed_call = self.clone().execute(until_server, turn).await,
            None => {}
        }
        sleep(self.delivery.until_client).await;
        self.wait_while_paused().await;
        let expired = CallError { cause: Cause::Timeout, executed: Executed::No };
        let end = match (self.delivery.end, executed_call) {
            (CallEnd::Reply, (Some(reply), effects)) => {
                locked(&self.world).ledger.record_acknowledgement(self.instance, &effects);
                return done.complete(Ok(reply));
            }
            (CallEnd::Dropped, _) => return drop(done),
            (CallEnd::CallError(error), _) => error,
            (CallEnd::Reply, (None, _)) => expired,
        };
        locked(&self.world).ledger.record_failed_call(self.instance, &self.call, end.executed);
        done.complete(Err(end));
    }

    /// Executes the call on the server, unless it has expired.
    async fn execute(self, until_server: Duration, turn: Option<Turn>) -> (Option<ScriptReply>, Vec<Effect>) {
        sleep(until_server).await;
        // Dropping it releases the next call.
        let mut _arrived = None;
        if let Some((before, arrived)) = turn {
            if let Some(before) = before {
                // A lost call does not block the next one.
                let _ = before.await;
            }
            _arrived = Some(arrived);
        }
        let mut effects = Vec::new();
        let mut world = locked(&self.world);
        let is_late = self.call.expires() && Instant::now() > self.deadline + MARGIN;
        if is_late && world.fault != Some(InjectedFault::RunExpired) {
            return (None, effects);
        }
        let (shard, now) = (world.shard_of(self.slot), world.now_us());
        let reply = world.shards[shard].execute(&self.call, now, &mut effects);
        world.ledger.record_execution(self.instance, &effects);
        let is_charged = effects.iter().any(|effect| matches!(effect, Effect::Charged { .. }));
        if is_late && is_charged && !matches!(self.delivery.end, CallEnd::Reply) {
            world
                .ledger
                .violate(format!("{} charged requests it has given up, without getting a reply", self.instance));
        }
        (Some(reply), effects)
    }
}
