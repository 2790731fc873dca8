//! The way of a batch to its slot and back.

use std::sync::Arc;
use std::task::Waker;

use smallvec::SmallVec;
use tokio::time::{Instant, sleep_until};

use super::answer::BatchAnswer;
use super::coalescer::{Departure, Joined, Step, Timer};
use super::request::{Charges, SlotRequest};
use super::waiter::{Progress, Waiter};
use super::{Batch, Boarded};
use crate::call::{Call, Line, Lines};
use crate::store::Inner;
use crate::store::breaker::shards::Watch;
use crate::store::fallback::debts::Debt;
use crate::store::limit::SharedLimit;
use crate::store::report::stats::StoreEvent;
use crate::transport::{Answered, Cause, Done, Executed, Slot, Trouble};

/// Debts of a request's keys, by their names.
type OwnDebts = SmallVec<[(Arc<[u8]>, Debt); 1]>;

/// A batch in flight.
struct Flight {
    batch: Arc<Batch>,
    times: u32,
    sent_at: Instant,
    /// Debts that travel with it.
    debts: OwnDebts,
}

impl Inner {
    /// Asks a slot for its part of a request.
    pub(in crate::store) fn ask<'a>(
        self: &'a Arc<Self>,
        slot: Slot,
        charges: &Charges<'_>,
        now: Instant,
        waker: &Waker,
    ) -> Waiter<'a> {
        let deadline = now + self.settings.deadline;
        let joined = if self.settings.joins {
            self.coalescer.join(slot, charges, now, deadline, waker)
        } else {
            let batch = Batch::alone(SlotRequest::new(slot, charges), None, deadline, waker);
            Joined { step: Step::Departs(Departure::alone(&batch, deadline)), batch, index: 0 }
        };
        let Joined { batch, index, step } = joined;
        if index == 0 {
            self.watch_deadlines(&batch, deadline);
        }
        let progress = match step {
            Step::Departs(departure) => {
                self.send_all(departure, now);
                Progress::Waiting
            }
            Step::Waits { timer } => {
                timer.into_iter().for_each(|timer| self.start_timer(timer));
                Progress::Asked
            }
        };
        Waiter::new(self, batch, index, progress)
    }

    /// Sends the batches that wait in a group when it is time, also if the request that started the timer has given up.
    fn start_timer(self: &Arc<Self>, timer: Timer) {
        let store = Arc::downgrade(self);
        self.runtime.spawn(async move {
            let mut due = timer.due;
            loop {
                sleep_until(due).await;
                let Some(store) = store.upgrade() else { return };
                let now = Instant::now();
                let (departure, again) = store.coalescer.due(&timer, now);
                if let Some(departure) = departure {
                    store.send_all(departure, now);
                }
                let Some(again) = again else { return };
                due = again;
            }
        });
    }

    fn send_all(self: &Arc<Self>, departure: Departure, now: Instant) {
        for watch in departure.overdue.iter().filter_map(|batch| batch.watch.get()) {
            self.call_failed(watch, Cause::Timeout, now);
        }
        for (batch, boarded) in departure.batches {
            self.counters.joined.add(u64::from(boarded.times) - 1);
            self.send(batch, boarded, now);
        }
    }

    /// Sends a batch, not before `sent_at`: a refusal is believed from then on.
    fn send(self: &Arc<Self>, batch: Arc<Batch>, boarded: Boarded, sent_at: Instant) {
        let Boarded { times, deadline } = boarded;
        let slot = batch.request.slot;
        let Some(watch) = self.admit(slot, sent_at, deadline) else {
            self.counters.failed(Cause::BreakerOpen);
            batch.finish(None);
            return self.send_waiting(&batch, sent_at);
        };
        // A stalled server would leave it unknown whether they were paid.
        let debts = if watch.has_overdue_calls { SmallVec::new() } else { self.take_debts(&batch.request, sent_at) };
        let call = call_for(&batch.request, times, &debts);
        // A batch is sent once.
        let _ = batch.watch.set(watch);
        self.counters.calls.add(1);
        let flight = Flight { batch, times, sent_at, debts };
        let store = Arc::clone(self);
        let done = Done::new(move |answered| store.arrived(flight, answered));
        self.transport.send(slot, call, deadline, done);
    }

    fn arrived(self: &Arc<Self>, flight: Flight, answered: Answered) {
        let now = Instant::now();
        let Flight { batch, times, sent_at, debts } = flight;
        let Some(watch) = batch.watch.get() else { return };
        self.call_done(watch, now);
        self.counters.call_durations.observe(now.saturating_duration_since(sent_at));
        let answer = answered.and_then(|reply| BatchAnswer::read(&batch.request, times, debts.len(), reply));
        match answer {
            Ok(answer) => {
                self.call_answered(watch, now);
                if now <= watch.deadline {
                    self.clock.heard(answer.now, now);
                }
                self.debts_paid(&debts, answer.unpaid);
                self.remember(&batch.request, &answer, watch, sent_at, now);
                self.hand_out(&batch, answer);
                if self.seam.owes_again() {
                    self.owe_again(&debts, now);
                }
            }
            Err(trouble) => {
                self.failed(&batch.request, times, watch, trouble, now);
                let uncertain = if trouble.executed == Executed::Unknown { debts.len() as u64 } else { 0 };
                self.counters.uncertain_charges.add(uncertain);
                // What may have been charged is not owed any more.
                if trouble.executed == Executed::No {
                    self.owe_again(&debts, now);
                }
                batch.finish(None);
            }
        }
        self.send_waiting(&batch, now);
    }

    /// Counts a call that failed.
    fn failed(self: &Arc<Self>, request: &SlotRequest, times: u32, watch: &Watch, trouble: Trouble, now: Instant) {
        if trouble.cause.is_of_a_key() {
            self.call_answered(watch, now);
            self.key_failed(request, trouble.cause, now);
        } else {
            self.call_failed(watch, trouble.cause, now);
        }
        if trouble.executed == Executed::Unknown {
            let each = request.charges.iter().filter(|charge| charge.is_made() || charge.is_shadow()).count();
            self.counters.uncertain_charges.add(u64::from(times) * each as u64);
        }
    }

    /// Gives each caller its own part, in the order in which they came. What was charged for callers that do not wait
    /// any more is given back.
    fn hand_out(self: &Arc<Self>, batch: &Batch, answer: BatchAnswer) {
        self.seam.hand_out(batch, answer.times);
        let late = batch.finish(Some(answer));
        let Some(answer) = batch.answer() else { return };
        for number in late {
            self.refund_made(&batch.request, answer, number);
        }
    }

    /// Gives back what was charged for one request of a batch.
    pub(super) fn refund_made(self: &Arc<Self>, request: &SlotRequest, answer: &BatchAnswer, number: u32) {
        let (lines, keys) = answer.refund(request, number);
        if !lines.is_empty() {
            self.counters.refunds.add(lines.len() as u64);
            self.send_refund(request.slot, lines, keys, |_, _| {});
        }
    }

    /// A call is over: those that waited for it are sent.
    fn send_waiting(self: &Arc<Self>, batch: &Arc<Batch>, now: Instant) {
        if let Some(departure) = self.coalescer.arrived(batch, now) {
            self.send_all(departure, now);
        }
    }

    fn take_debts(&self, request: &SlotRequest, now: Instant) -> OwnDebts {
        if self.debts.is_empty() {
            return SmallVec::new();
        }
        let mut debts = SmallVec::new();
        for (charge, key) in request.charges.iter().zip(&request.keys) {
            let Some(mut debt) = self.debts.take(&charge.target.key, now) else { continue };
            if let Some(limit) = &SharedLimit::of(&charge.target.limit).fallback {
                // Time has settled the rest.
                let here = self.fallback.peek(limit, &**key);
                debt.amount = debt.amount.min(here.limit.saturating_sub(here.remaining));
            }
            if debt.amount > 0 {
                // A key that is full will be so for longer.
                self.refusals.forget(key, now);
                debts.push((Arc::clone(&charge.target.key), debt));
            }
        }
        debts
    }

    fn debts_paid(&self, debts: &[(Arc<[u8]>, Debt)], unpaid: u64) {
        if !debts.is_empty() {
            let owed: u64 = debts.iter().map(|(_, debt)| debt.amount).fold(0, u64::saturating_add);
            self.counters.paid_debts.add(debts.len() as u64);
            self.payments.record(|(count, amount)| {
                *count += debts.len() as u64;
                *amount = amount.saturating_add(owed.saturating_sub(unpaid));
            });
        }
    }

    /// Reports a value that cannot be used. Its server has not failed.
    fn key_failed(&self, request: &SlotRequest, cause: Cause, now: Instant) {
        self.counters.failed(cause);
        self.bad_values.record(|calls| *calls += 1);
        let Some(calls) = self.bad_values.take(now) else { return };
        // The rest of a name identifies the client, and stays out of the log.
        let names = request.charges.iter().map(|charge| &SharedLimit::of(&charge.target.limit).prefix_and_scope);
        let keys = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        (self.on_change)(StoreEvent::BadValue { keys, cause: cause.name(), calls });
    }

    fn owe_again(&self, debts: &[(Arc<[u8]>, Debt)], now: Instant) {
        for (key, debt) in debts {
            if !self.debts.put(key, *debt, now) {
                self.counters.dropped_debts.add(1);
            }
        }
    }
}

fn call_for(request: &SlotRequest, times: u32, debts: &[(Arc<[u8]>, Debt)]) -> Call {
    let mut lines = Lines::with_capacity(1 + debts.len());
    for (key, debt) in debts {
        if let Some(charge) = request.charges.iter().find(|charge| charge.target.key == *key) {
            lines.push(Line::Force { target: charge.target.clone(), cost: debt.amount });
        }
    }
    lines.push(Line::Decide { times, charges: Arc::clone(&request.charges) });
    Call { lines }
}
