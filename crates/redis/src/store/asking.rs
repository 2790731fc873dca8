//! The way of a question to its slot and back.

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_core::Charged;
use tollgate_store::{Mode, Refusals};

use super::Inner;
use super::breakers::Watch;
use super::debts::Debt;
use super::failure::Failure;
use super::lanes::{Departure, Joined, Journey, Timer};
use super::made::{Made, MadeCharge};
use super::planted::Planted;
use super::question::{Answer, Asker, Askers, Group, Origin, Question, Seen, SlotAnswer};
use super::refusals::Full;
use super::stats::StoreEvent;
use crate::call::{self, Call, Line, Reply};
use crate::script::{Replayed, Standing, replay, standings};
use crate::transport::{Answered, Cause, Done, Executed, Transport, Trouble};

/// A question whose answer is awaited.
pub(super) struct Pending<T: Transport> {
    answer: oneshot::Receiver<SlotAnswer<T>>,
    question: Arc<Question>,
}

/// A question on its way.
struct Flight<T: Transport> {
    question: Arc<Question>,
    askers: Askers<T>,
    /// Which lane it occupies.
    lane: Option<(Group, u64)>,
    sent_at: Instant,
    watch: Arc<Watch>,
    /// Debts that travel with it.
    debts: SmallVec<[(Arc<[u8]>, Debt); 2]>,
}

impl<T: Transport> Inner<T> {
    pub(super) fn ask(self: &Arc<Self>, question: &Arc<Question>, now: Instant, deadline: Instant) -> Pending<T> {
        let (sender, answer) = oneshot::channel();
        let asker = Asker { question: Arc::clone(question), answer: sender, deadline };
        let pending = Pending { answer, question: Arc::clone(question) };
        if !self.settings.joins {
            self.depart(Arc::clone(question), smallvec![asker], None, now);
            return pending;
        }
        match self.lanes.join(asker, now) {
            Joined::Departs(departure) => self.set_out(departure, now),
            Joined::Waits(Some(timer)) => self.look_after(timer),
            Joined::Waits(None) => {}
        }
        pending
    }

    /// The answer, or that there is none in time.
    pub(super) async fn answer(self: &Arc<Self>, mut pending: Pending<T>, deadline: Instant) -> SlotAnswer<T> {
        if self.is_planted(Planted::NoDeadline) {
            return pending.answer.await.unwrap_or(Err(Failure::Trouble(Cause::Connection)));
        }
        match timeout_at(deadline, &mut pending.answer).await {
            Ok(answer) => answer.unwrap_or(Err(Failure::Trouble(Cause::Connection))),
            Err(_) => {
                let failure = Failure::Trouble(Cause::Timeout);
                match pending.question.watch.get() {
                    // Also if others that travel with it have a little more time: it took too long.
                    Some(watch) => self.call_failed(watch, failure, Instant::now()),
                    None => self.counters.failed(failure),
                }
                Err(failure)
            }
        }
    }

    /// Sends the checks that wait on a lane when it is time, also if the check that started the timer has given up.
    fn look_after(self: &Arc<Self>, timer: Timer) {
        let store = Arc::downgrade(self);
        self.runtime.spawn(async move {
            let mut due = timer.due;
            loop {
                sleep_until(due).await;
                let Some(store) = store.upgrade() else { return };
                let now = Instant::now();
                let (departure, again) = store.lanes.due(&timer, now);
                if let Some(departure) = departure {
                    store.set_out(departure, now);
                }
                let Some(again) = again else { return };
                due = again;
            }
        });
    }

    fn set_out(self: &Arc<Self>, departure: Departure<T>, now: Instant) {
        for watch in departure.overdue {
            self.call_failed(&watch, Failure::Trouble(Cause::Timeout), now);
        }
        for journey in departure.journeys {
            self.begin(journey, now);
        }
    }

    fn begin(self: &Arc<Self>, journey: Journey<T>, now: Instant) {
        let Journey { group, number, askers } = journey;
        if let Some(first) = askers.first() {
            self.counters.joined.add(askers.len() as u64 - 1);
            // They all ask the same, so one of the questions is sent.
            self.depart(Arc::clone(&first.question), askers, Some((group, number)), now);
        }
    }

    /// Sends a question, not before `sent_at`: a refusal is believed from then on.
    fn depart(
        self: &Arc<Self>,
        question: Arc<Question>,
        askers: Askers<T>,
        lane: Option<(Group, u64)>,
        sent_at: Instant,
    ) {
        let deadline = askers.iter().map(|asker| asker.deadline).max().unwrap_or(sent_at);
        let Some(watch) = self.admit(question.slot, sent_at, deadline) else {
            self.counters.failed(Failure::BreakerOpen);
            disappoint(askers, Failure::BreakerOpen);
            return self.lane_is_free(lane, sent_at);
        };
        for asker in &askers {
            // Only who sends fills it in, and each is sent once.
            let _ = asker.question.watch.set(Arc::clone(&watch));
        }
        if let Some((group, number)) = &lane {
            self.lanes.departed(group, *number, &watch);
        }
        // A stalled server would leave it unknown whether they were paid.
        let debts = if watch.has_overdue_calls { SmallVec::new() } else { self.take_debts(&question, sent_at) };
        let call = call_for(&question, askers.len(), &debts);
        self.counters.calls.add(1);
        let slot = question.slot;
        let again = self.is_planted(Planted::RetryUnknown).then(|| call.clone());
        let flight = Flight { question, askers, lane, sent_at, watch, debts };
        let store = Arc::clone(self);
        let done = Done::new(move |answered| match (&answered, again) {
            (Err(Trouble { executed: Executed::Unknown, .. }), Some(call)) => {
                let done = Done::new({
                    let store = Arc::clone(&store);
                    move |answered| store.arrived(flight, answered)
                });
                store.transport.send(slot, call, deadline, done);
            }
            _ => store.arrived(flight, answered),
        });
        self.transport.send(slot, call, deadline, done);
    }

    fn arrived(self: &Arc<Self>, flight: Flight<T>, answered: Answered) {
        let now = Instant::now();
        let Flight { question, askers, lane, sent_at, watch, debts } = flight;
        self.call_done(&watch, now);
        let times = askers.len() as u32;
        self.counters.call_durations.observe(now.saturating_duration_since(sent_at));
        let understood = answered.and_then(|reply| understand(&question, times, debts.len(), &reply));
        match understood {
            Ok(understood) => {
                self.call_answered(&watch, now);
                if now <= watch.deadline {
                    self.clock.heard(understood.seen.now, now);
                }
                self.debts_paid(&debts, understood.unpaid);
                self.remember(&question, &understood, &watch, sent_at, now);
                self.hand_out(askers, understood);
                if self.is_planted(Planted::KeepDebt) {
                    self.owe_again(&debts, now);
                }
            }
            Err(trouble) => {
                if trouble.cause.is_of_a_key() {
                    self.call_answered(&watch, now);
                    self.key_failed(&question, trouble.cause, now);
                } else {
                    self.call_failed(&watch, Failure::Trouble(trouble.cause), now);
                }
                if trouble.executed == Executed::Unknown {
                    let each = question.charges.iter().filter(|charge| charge.is_made() || charge.is_shadow()).count();
                    self.counters.uncertain_charges.add(u64::from(times) * each as u64 + debts.len() as u64);
                }
                // What may have been charged is not owed any more.
                if trouble.executed == Executed::No || self.is_planted(Planted::DoubleDebt) {
                    self.owe_again(&debts, now);
                }
                disappoint(askers, Failure::Trouble(trouble.cause));
            }
        }
        self.lane_is_free(lane, now);
    }

    fn lane_is_free(self: &Arc<Self>, lane: Option<(Group, u64)>, now: Instant) {
        if let Some((group, number)) = lane
            && let Some(departure) = self.lanes.arrived(&group, number, now)
        {
            self.set_out(departure, now);
        }
    }

    fn take_debts(&self, question: &Question, now: Instant) -> SmallVec<[(Arc<[u8]>, Debt); 2]> {
        if self.debts.is_empty() {
            return SmallVec::new();
        }
        let mut debts = SmallVec::new();
        for (charge, origin) in question.charges.iter().zip(&question.origins) {
            let Some(mut debt) = self.debts.take(&charge.target.key, now) else { continue };
            if let Some(limit) = &origin.limit.0.fallback {
                // Time has settled the rest.
                let here = self.fallback.peek(limit, &*origin.key);
                debt.amount = debt.amount.min(here.limit.saturating_sub(here.remaining));
            }
            if debt.amount > 0 {
                // A key that is full will be so for longer.
                self.refusals.forget(&origin.key, now);
                debts.push((Arc::clone(&charge.target.key), debt));
            }
        }
        debts
    }

    fn debts_paid(&self, debts: &[(Arc<[u8]>, Debt)], unpaid: u64) {
        if !debts.is_empty() {
            let owed: u64 = debts.iter().map(|(_, debt)| debt.amount).fold(0, u64::saturating_add);
            self.counters.paid_debts.add(debts.len() as u64);
            self.payments.record(debts.len() as u64, owed.saturating_sub(unpaid));
        }
    }

    /// Reports a value that cannot be used. Its server has not failed.
    fn key_failed(&self, question: &Question, cause: Cause, now: Instant) {
        let failure = Failure::Trouble(cause);
        self.counters.failed(failure);
        let Some(calls) = self.bad_values.record(now) else { return };
        // The rest of a name identifies the client, and stays out of the log.
        let names = question.origins.iter().map(|origin| &origin.limit.0.prefix_and_scope);
        let keys = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        (self.on_change)(StoreEvent::BadValue { keys, cause: failure.name(), calls });
    }

    fn owe_again(&self, debts: &[(Arc<[u8]>, Debt)], now: Instant) {
        for (key, debt) in debts {
            if !self.debts.put(key, *debt, now) {
                self.counters.dropped_debts.add(1);
            }
        }
    }

    /// Remembers what the answer tells of its keys. After a refusal, keys that nothing can be charged to stay as they
    /// are.
    fn remember(
        &self,
        question: &Question,
        understood: &Understood,
        watch: &Watch,
        sent_at: Instant,
        heard_at: Instant,
    ) {
        if !self.settings.remembers_refusals {
            return;
        }
        let Understood { passed, answers, seen, .. } = understood;
        let is_refused = (*passed as usize) < answers.len();
        // Of what comes too late, the age is not known well enough.
        let known = (is_refused && heard_at <= watch.deadline)
            .then(|| standings(&question.charges, seen.now, *passed, &seen.views))
            .flatten()
            .unwrap_or_default();
        for (at, (charge, origin)) in question.charges.iter().zip(&question.origins).enumerate() {
            // Where a key is charged twice, each stands in the other's way.
            let is_alone = question.charges.iter().filter(|other| other.target.key == charge.target.key).count() == 1;
            let full = known.get(at).filter(|standing| is_alone && !standing.is_large()).and_then(|standing| {
                let lasts = self.lasts(question, at, &known, seen.now)?;
                Some(Full { standing: standing.clone(), at_us: seen.now, sent_at, heard_at, lasts })
            });
            let is_changed = *passed > 0 && (charge.is_made() || charge.is_shadow());
            if is_refused || is_changed {
                self.refusals.replace(&origin.limit, &origin.key, full, heard_at);
            }
        }
    }

    /// How long nothing can be charged to a key: because it is full, or because all guards before it refuse.
    fn lasts(&self, question: &Question, at: usize, known: &[Standing], now_us: u64) -> Option<Duration> {
        let is_full_for = |at: usize| known[at].is_full_for(&question.charges[at].target.terms, now_us);
        let (charge, origin) = (&question.charges[at], &question.origins[at]);
        let mut lasts_us = is_full_for(at);
        if origin.limit.0.options.refusals == Refusals::Guarded && charge.cost > 0 {
            let is_guard = |other: &usize| {
                let Origin { limit, key } = &question.origins[*other];
                let is_final = limit.0.options.refusals == Refusals::Final;
                is_final && *key == origin.key && question.charges[*other].mode == Mode::Guard
            };
            // `None` is less than any time, so a guard that lets pass is the shortest.
            let guarded_us = (0..known.len()).filter(is_guard).map(is_full_for).min().flatten();
            lasts_us = lasts_us.max(guarded_us);
        }
        let lasts = Duration::from_micros(lasts_us?);
        Some(if self.is_planted(Planted::RememberTooLong) { lasts * 3 } else { lasts })
    }

    /// To each its own, in the order in which they came.
    fn hand_out(self: &Arc<Self>, mut askers: Askers<T>, understood: Understood) {
        let Understood { passed, answers, seen, .. } = understood;
        if self.is_planted(Planted::SwapJoinedAnswers) {
            askers.reverse();
        }
        let seen = Arc::new(seen);
        for (index, (asker, replayed)) in (0..).zip(askers.into_iter().zip(answers)) {
            let made = Made::new(Arc::clone(self), asker.question, made_charges(&replayed));
            let answer = Answer { passed: index < passed, replayed, made, index, seen: Arc::clone(&seen) };
            if let Err(Ok(answer)) = asker.answer.send(Ok(Box::new(answer))) {
                answer.made.came_too_late();
            }
        }
    }
}

/// What came back, worked out for each who asked.
struct Understood {
    passed: u32,
    /// How much of the debts did not fit.
    unpaid: u64,
    answers: Vec<Replayed>,
    seen: Seen,
}

fn call_for(question: &Question, times: usize, debts: &[(Arc<[u8]>, Debt)]) -> Call {
    let mut lines = Vec::with_capacity(1 + debts.len());
    for (key, debt) in debts {
        if let Some(charge) = question.charges.iter().find(|charge| charge.target.key == *key) {
            lines.push(Line::Force { target: charge.target.clone(), cost: debt.amount });
        }
    }
    lines.push(Line::Decide { times: times as u32, charges: question.charges.clone() });
    Call { lines }
}

/// Reads a reply. One that makes no sense was carried out all the same, as far as anybody knows.
fn understand(question: &Question, times: u32, forced: usize, reply: &Reply) -> Result<Understood, Trouble> {
    let nonsense = Trouble { cause: Cause::Protocol, executed: Executed::Unknown };
    let Some(call::Answer::Decided { passed, views }) = reply.answers.get(forced) else { return Err(nonsense) };
    let answers = replay(&question.charges, times, reply.now, *passed, views).map_err(|_| nonsense)?;
    let unpaid = reply.answers.iter().map(unpaid).fold(0, u64::saturating_add);
    Ok(Understood { passed: *passed, unpaid, answers, seen: Seen { now: reply.now, views: views.clone() } })
}

fn unpaid(answer: &call::Answer) -> u64 {
    match answer {
        call::Answer::Forced { unpaid } => *unpaid,
        _ => 0,
    }
}

fn made_charges(replayed: &Replayed) -> SmallVec<[MadeCharge; 4]> {
    let made = |(at, charged): (usize, &Option<Charged>)| Some(MadeCharge { at, charged: (*charged)? });
    replayed.charged.iter().enumerate().filter_map(made).collect()
}

fn disappoint<T: Transport>(askers: Askers<T>, failure: Failure) {
    for asker in askers {
        // Who does not wait any more has had its answer.
        let _ = asker.answer.send(Err(failure));
    }
}
