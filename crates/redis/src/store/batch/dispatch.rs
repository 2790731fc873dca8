//! Sends batches to their slots and delivers the answers.

use std::sync::Arc;
use std::task::Waker;

use smallvec::SmallVec;
use tokio::time::{Instant, sleep_until};

use super::answer::BatchAnswer;
use super::coalescer::{BatchTimer, DueBatches, JoinStep, Joined};
use super::request::{Charges, SlotRequest};
use super::waiter::{BatchWaiter, WaiterProgress};
use super::{Batch, BatchSize};
use crate::call::{Call, ScriptOp, ScriptOps};
use crate::store::Inner;
use crate::store::breaker::shards::TrackedCall;
use crate::store::fallback::debts::KeyDebt;
use crate::store::limit::RedisLimitData;
use crate::store::report::stats::StoreEvent;
use crate::transport::{CallError, CallResult, Cause, Done, Executed, Slot};

/// The debts of a request's keys, by the names of the keys.
type RequestDebts = SmallVec<[(Arc<[u8]>, KeyDebt); 1]>;

/// A batch in flight.
struct SentBatch {
    batch: Arc<Batch>,
    times: u32,
    sent_at: Instant,
    /// The debts that are paid by its call.
    debts: RequestDebts,
}

impl Inner {
    /// Submits the charges of one slot. The returned waiter resolves with their decisions.
    pub(in crate::store) fn submit<'a>(
        self: &'a Arc<Self>,
        slot: Slot,
        charges: &Charges<'_>,
        now: Instant,
        waker: &Waker,
    ) -> BatchWaiter<'a> {
        let deadline = now + self.settings.deadline;
        let joined = if self.settings.coalesces_checks {
            self.coalescer.join(slot, charges, now, deadline, waker)
        } else {
            let batch = Batch::single(SlotRequest::new(slot, charges), None, deadline, waker);
            Joined { step: JoinStep::Send(DueBatches::single(&batch, deadline)), batch, index: 0 }
        };
        let Joined { batch, index, step } = joined;
        if index == 0 {
            self.watch_deadlines(&batch, deadline);
        }
        let progress = match step {
            JoinStep::Send(due) => {
                self.send_all(due, now);
                WaiterProgress::Waiting
            }
            JoinStep::Wait { timer } => {
                timer.into_iter().for_each(|timer| self.start_timer(timer));
                WaiterProgress::Registered
            }
        };
        BatchWaiter::new(self, batch, index, progress)
    }

    /// Sends the waiting batches of a group when they are due, even if the request that started the timer has given up.
    fn start_timer(self: &Arc<Self>, timer: BatchTimer) {
        let store = Arc::downgrade(self);
        self.runtime.spawn(async move {
            let mut wake_at = timer.due;
            loop {
                sleep_until(wake_at).await;
                let Some(store) = store.upgrade() else { return };
                let now = Instant::now();
                let (due, next) = store.coalescer.on_timer(&timer, now);
                if let Some(due) = due {
                    store.send_all(due, now);
                }
                let Some(next) = next else { return };
                wake_at = next;
            }
        });
    }

    fn send_all(self: &Arc<Self>, due: DueBatches, now: Instant) {
        for tracked in due.overdue.iter().filter_map(|batch| batch.tracked.get()) {
            self.on_call_failed(tracked, Cause::Timeout, now);
        }
        for (batch, size) in due.batches {
            self.counters.joined.add(u64::from(size.times) - 1);
            self.send(batch, size, now);
        }
    }

    /// Sends a batch. `sent_at` is not later than the call: the validity of cached refusals is counted from it.
    fn send(self: &Arc<Self>, batch: Arc<Batch>, size: BatchSize, sent_at: Instant) {
        let BatchSize { times, deadline } = size;
        let slot = batch.request.slot;
        if self.has_no_share(batch.request.charges.iter().map(|charge| charge.target.limit.clone())) {
            batch.finish(None);
            return self.send_waiting(&batch, sent_at);
        }
        let Some(tracked) = self.admit(slot, sent_at, deadline) else {
            self.counters.count_failure(Cause::BreakerOpen);
            batch.finish(None);
            return self.send_waiting(&batch, sent_at);
        };
        // If the server is stalled, no debts are sent: it would be unknown whether the call paid them.
        let debts = if tracked.has_overdue_calls { SmallVec::new() } else { self.take_debts(&batch.request, sent_at) };
        let call = call_for(&batch.request, times, &debts);
        // A batch is sent once.
        let _ = batch.tracked.set(tracked);
        self.counters.calls.add(1);
        let sent = SentBatch { batch, times, sent_at, debts };
        let store = Arc::clone(self);
        let done = Done::new(move |answered| store.on_batch_reply(sent, answered));
        self.transmit(slot, call, deadline, done);
    }

    /// Handles the result of a batch's call: delivers the answer, or fails the callers.
    fn on_batch_reply(self: &Arc<Self>, sent: SentBatch, answered: CallResult) {
        let now = Instant::now();
        let SentBatch { batch, times, sent_at, debts } = sent;
        let Some(tracked) = batch.tracked.get() else { return };
        self.on_call_done(tracked, now);
        self.counters.call_durations.observe(now.saturating_duration_since(sent_at));
        let answer = answered.and_then(|reply| BatchAnswer::read(&batch.request, times, debts.len(), reply));
        match answer {
            Ok(answer) => {
                self.on_call_answered(tracked, now);
                if now <= tracked.deadline {
                    self.clock.observe(answer.now, now);
                }
                self.record_paid_debts(&debts, answer.unpaid);
                self.update_refusal_cache(&batch.request, &answer, tracked, sent_at, now);
                self.deliver(&batch, answer);
                if self.fault_points.restores_paid_debts() {
                    self.restore_debts(&debts, now);
                }
            }
            Err(error) => {
                self.count_failed_call(&batch.request, times, tracked, error, now);
                let uncertain = if error.executed == Executed::Unknown { debts.len() as u64 } else { 0 };
                self.counters.uncertain_charges.add(uncertain);
                // A debt that may have been charged is dropped, so that it is not charged twice.
                if error.executed == Executed::No {
                    self.restore_debts(&debts, now);
                }
                batch.finish(None);
            }
        }
        self.send_waiting(&batch, now);
    }

    /// Counts a failed call of `times` requests for the breaker and the statistics.
    fn count_failed_call(
        self: &Arc<Self>,
        request: &SlotRequest,
        times: u32,
        tracked: &TrackedCall,
        error: CallError,
        now: Instant,
    ) {
        if error.cause.concerns_a_key() {
            self.on_call_answered(tracked, now);
            self.report_bad_value(request, error.cause, now);
        } else if error.cause.concerns_the_call() {
            self.on_call_answered(tracked, now);
            self.counters.count_failure(error.cause);
        } else {
            self.on_call_failed(tracked, error.cause, now);
        }
        if error.executed == Executed::Unknown {
            let charges_each =
                request.charges.iter().filter(|charge| charge.is_enforced() || charge.is_shadow()).count();
            self.counters.uncertain_charges.add(u64::from(times) * charges_each as u64);
        }
    }

    /// Delivers the answer to the callers, in the order of their arrival. Charges for callers that do not wait any more
    /// are refunded.
    fn deliver(self: &Arc<Self>, batch: &Batch, answer: BatchAnswer) {
        self.fault_points.before_delivery(batch, answer.times);
        let late = batch.finish(Some(answer));
        let Some(answer) = batch.answer() else { return };
        for number in late {
            self.refund_charges(&batch.request, answer, number);
        }
    }

    /// Refunds the charges of one request of a batch.
    pub(super) fn refund_charges(self: &Arc<Self>, request: &SlotRequest, answer: &BatchAnswer, number: u32) {
        let (ops, keys) = answer.refund_ops(request, number);
        if !ops.is_empty() {
            self.counters.refunds.add(ops.len() as u64);
            self.send_adjustment(request.slot, ops, keys, |_, _| {});
        }
    }

    /// Sends the batches that waited for a finished call.
    fn send_waiting(self: &Arc<Self>, batch: &Arc<Batch>, now: Instant) {
        if let Some(due) = self.coalescer.finish_call(batch, now) {
            self.send_all(due, now);
        }
    }

    /// Takes the debts of a request's keys, to be paid by its call.
    fn take_debts(&self, request: &SlotRequest, now: Instant) -> RequestDebts {
        if self.debts.is_empty() {
            return SmallVec::new();
        }
        let mut debts = SmallVec::new();
        for (charge, key) in request.charges.iter().zip(&request.keys) {
            let Some(mut debt) = self.debts.take(&charge.target.key, now) else { continue };
            if let Some(limit) = &RedisLimitData::of(&charge.target.limit).fallback {
                // Only the part that the local count still has is charged: the rest has expired.
                let local = self.fallback.peek(limit, &**key);
                debt.amount = debt.amount.min(local.limit.saturating_sub(local.remaining));
            }
            if debt.amount > 0 {
                // The debt makes an exhausted key stay exhausted for longer than its cached refusal states.
                self.refusals.remove(key, now);
                debts.push((Arc::clone(&charge.target.key), debt));
            }
        }
        debts
    }

    /// Records debts that a call has paid, except for `unpaid`.
    fn record_paid_debts(&self, debts: &[(Arc<[u8]>, KeyDebt)], unpaid: u64) {
        if !debts.is_empty() {
            let total: u64 = debts.iter().map(|(_, debt)| debt.amount).fold(0, u64::saturating_add);
            self.counters.paid_debts.add(debts.len() as u64);
            self.paid_debts.record(|(count, amount)| {
                *count += debts.len() as u64;
                *amount = amount.saturating_add(total.saturating_sub(unpaid));
            });
        }
    }

    /// Reports a value that tollgate cannot read. Its server has not failed.
    fn report_bad_value(&self, request: &SlotRequest, cause: Cause, now: Instant) {
        self.counters.count_failure(cause);
        self.bad_values.record(|calls| *calls += 1);
        let Some(calls) = self.bad_values.take(now) else { return };
        // The rest of a key's name identifies the client, and must not be logged.
        let names = request.charges.iter().map(|charge| &RedisLimitData::of(&charge.target.limit).prefix_and_scope);
        let keys = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        (self.on_event)(StoreEvent::BadValue { keys, cause: cause.name(), calls });
    }

    /// Records debts again that a call has taken and not paid.
    fn restore_debts(&self, debts: &[(Arc<[u8]>, KeyDebt)], now: Instant) {
        for (key, debt) in debts {
            if !self.debts.put(key, *debt, now) {
                self.counters.dropped_debts.add(1);
            }
        }
    }
}

fn call_for(request: &SlotRequest, times: u32, debts: &[(Arc<[u8]>, KeyDebt)]) -> Call {
    let mut ops = ScriptOps::with_capacity(1 + debts.len());
    for (key, debt) in debts {
        if let Some(charge) = request.charges.iter().find(|charge| charge.target.key == *key) {
            ops.push(ScriptOp::Force { target: charge.target.clone(), cost: debt.amount });
        }
    }
    ops.push(ScriptOp::Decide { times, charges: Arc::clone(&request.charges) });
    Call { ops }
}
