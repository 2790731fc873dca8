//! Sends the calls that lease, report and return tokens.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use super::leased_key::{LeaseCall, LeasedKey};
use super::lock;
use crate::call::{Answer, Call, LeaseRequest, LeaseSettlement, ScriptOp, ScriptOps, Target};
use crate::store::Inner;
use crate::transport::{CallError, CallResult, Cause, Done, Executed, Slot};

/// How often unused tokens are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_millis(50);

/// The time that a stopping instance waits for the answers to its returns.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// What is known of a call while it is in flight.
struct SentCall {
    id: u64,
    slot: Slot,
    target: Target,
    key: Box<[u8]>,
    generation_ms: u64,
    /// Whether it returns tokens, so that a refusal of before may not hold any more.
    returns: bool,
}

impl Inner {
    pub(super) fn send_lease_call(self: &Arc<Self>, call: LeaseCall, key: &[u8]) {
        self.send_lease_call_then(call, key, || {});
    }

    /// Sends a call, and calls `then` when its outcome is known.
    fn send_lease_call_then(self: &Arc<Self>, call: LeaseCall, key: &[u8], then: impl FnOnce() + Send + 'static) {
        let LeaseCall { id, slot, request } = call;
        let now = Instant::now();
        let patience = if request.wanted == 0 { self.settings.background_deadline } else { self.settings.deadline };
        let returns = request.settlements.iter().any(|settlement| settlement.returned > 0);
        let (target, generation_ms) = (request.target.clone(), request.generation_ms);
        let sent = SentCall { id, slot, target, key: key.into(), generation_ms, returns };
        if self.breakers.is_any_open() && self.breakers.is_open(self.transport.shard(slot)) {
            let rejected = CallError { cause: Cause::BreakerOpen, executed: Executed::No };
            self.on_lease_reply(&sent, Err(rejected));
            return then();
        }
        self.counters.lease_calls.add(1);
        if returns {
            self.refusals.remove(key, now);
        }
        let mut ops = ScriptOps::new();
        ops.push(ScriptOp::Lease(Box::new(request)));
        let store = Arc::clone(self);
        let done = Done::new(move |answered| {
            store.on_lease_reply(&sent, answered);
            then();
        });
        self.transport.send(slot, Call { ops }, now + patience, done);
    }

    fn on_lease_reply(self: &Arc<Self>, sent: &SentCall, answered: CallResult) {
        if sent.returns {
            // Between sending and executing the call a check may have been refused, and its refusal cached.
            self.refusals.remove(&sent.key, Instant::now());
        }
        let answered = answered.and_then(|mut reply| match reply.answers.pop() {
            Some(Answer::Leased(answer)) => Ok((reply.now, answer)),
            _ => Err(CallError { cause: Cause::Protocol, executed: Executed::Unknown }),
        });
        let now_ns = self.leases.clock.now_ns();
        let late = {
            let mut shard = self.leases.shard(&sent.key);
            let is_same = |leased: &&mut LeasedKey| leased.has_name(&sent.target.key);
            let leased = shard.get_mut(&sent.key).into_iter().flatten().find(is_same);
            match (answered, leased) {
                (Ok((at_us, answer)), leased) => {
                    self.counters.leased_tokens.add(answer.granted);
                    let late =
                        leased.map_or(answer.granted, |leased| leased.answered(sent.id, &answer, at_us, now_ns).0);
                    Some((answer.generation, late))
                }
                (Err(error), leased) => {
                    self.counters.count_failure(error.cause);
                    leased.into_iter().for_each(|leased| leased.failed(sent.id, error.executed, now_ns));
                    None
                }
            }
        };
        if let Some((generation, late)) = late.filter(|(_, late)| *late > 0) {
            self.return_late_tokens(sent, generation, late);
        }
    }

    /// Sends back tokens whose grant arrived when they were not waited for any more.
    fn return_late_tokens(self: &Arc<Self>, sent: &SentCall, generation: u64, returned: u64) {
        let request = LeaseRequest {
            target: sent.target.clone(),
            wanted: 0,
            max_outstanding: 0,
            generation_ms: sent.generation_ms,
            settlements: smallvec![LeaseSettlement { generation, spent: 0, returned }],
        };
        let call = LeaseCall { id: self.leases.next_id(), slot: sent.slot, request };
        self.send_lease_call(call, &sent.key);
    }

    /// Starts the task that returns unused tokens, unless it runs.
    pub(super) fn start_sweeper(self: &Arc<Self>) {
        if self.leases.has_sweeper.swap(true, Ordering::AcqRel) {
            return;
        }
        let store = Arc::downgrade(self);
        self.runtime.spawn(async move {
            loop {
                sleep(SWEEP_INTERVAL).await;
                let Some(store) = store.upgrade() else { return };
                store.sweep_leases();
                if store.leases.keys.load(Ordering::Acquire) == 0 {
                    store.leases.has_sweeper.store(false, Ordering::Release);
                    // A key that was added meanwhile found the task running.
                    if store.leases.keys.load(Ordering::Acquire) == 0
                        || store.leases.has_sweeper.swap(true, Ordering::AcqRel)
                    {
                        return;
                    }
                }
            }
        });
    }

    /// Sends back unused tokens of all keys, and removes keys that are not used any more.
    fn sweep_leases(self: &Arc<Self>) {
        let leases = &self.leases;
        for shard in &leases.shards {
            let mut calls: SmallVec<[(LeaseCall, Box<[u8]>); 8]> = SmallVec::new();
            let now_ns = leases.clock.now_ns();
            lock(shard).retain(|key, entries| {
                let before = entries.len();
                entries.retain(|leased| {
                    self.counters.stranded_tokens.add(leased.drop_ended(now_ns).0);
                    let call = leased.return_unused(now_ns, || leases.next_id());
                    calls.extend(call.map(|call| (call, key.clone())));
                    !leased.is_unused(now_ns)
                });
                leases.keys.fetch_sub(before - entries.len(), Ordering::AcqRel);
                !entries.is_empty()
            });
            calls.into_iter().for_each(|(call, key)| self.send_lease_call(call, &key));
        }
    }

    /// Sends back all leased tokens, and waits briefly until the servers have them back. Nothing is leased from now on.
    pub(in crate::store) async fn close_leases(self: &Arc<Self>) {
        self.leases.is_closed.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        let (sender, mut answered) = mpsc::channel::<()>(1);
        for shard in &self.leases.shards {
            let now_ns = self.leases.clock.now_ns();
            let mut calls: SmallVec<[(LeaseCall, Box<[u8]>); 8]> = SmallVec::new();
            for (key, leased) in &mut *lock(shard) {
                let returned =
                    leased.iter_mut().filter_map(|leased| leased.return_all(now_ns, || self.leases.next_id()));
                calls.extend(returned.map(|call| (call, key.clone())));
            }
            for (call, key) in calls {
                let sender = sender.clone();
                self.send_lease_call_then(call, &key, move || drop(sender));
            }
        }
        drop(sender);
        // The channel ends when the last call has been answered.
        let _ = timeout_at(deadline, answered.recv()).await;
    }
}
