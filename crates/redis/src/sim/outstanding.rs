//! A model of outstanding leases, by the functions of the core.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{Algorithm, Charged};

use super::InjectedFault;
use crate::call::LeaseRequest;

/// The outstanding tokens of all keys of a server.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct OutstandingLeases {
    by_key: HashMap<Arc<[u8]>, KeyLeases>,
    pub(in crate::sim) fault: Option<InjectedFault>,
}

/// The outstanding tokens of a key.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct KeyLeases {
    /// The length of a generation, in microseconds.
    length_us: u64,
    generation: u64,
    /// The tokens leased in the generation before, and in this one.
    before: u64,
    current: u64,
    /// The tokens that are charged to the state while an operation is applied.
    held: Option<Charged>,
    /// The time of the last change.
    changed_at: u64,
    fault: Option<InjectedFault>,
}

impl OutstandingLeases {
    pub(in crate::sim) fn take(&mut self, key: &[u8]) -> Option<KeyLeases> {
        self.by_key.remove(key)
    }

    pub(in crate::sim) fn take_or_new(&mut self, key: &[u8]) -> KeyLeases {
        self.take(key).unwrap_or_else(|| KeyLeases { fault: self.fault, ..KeyLeases::default() })
    }

    /// Stores the leases of a key, unless there are none and no operation is applied.
    pub(in crate::sim) fn put(&mut self, key: &Arc<[u8]>, leases: KeyLeases) {
        if leases.outstanding() > 0 || leases.held.is_some() {
            self.by_key.insert(Arc::clone(key), leases);
        }
    }
}

impl KeyLeases {
    pub(in crate::sim) fn outstanding(&self) -> u64 {
        self.before + self.current
    }

    /// Charges what has ended at its end, and what is outstanding at `now`, as far as it fits.
    pub(in crate::sim) fn hold<A: Algorithm>(&mut self, rule: &A, state: &mut A::State, now: u64) {
        if self.fault == Some(InjectedFault::ValueEndsBeforeLeases) && rule.expires_at(state) <= now {
            (self.before, self.current) = (0, 0);
        }
        if self.length_us > 0 {
            self.turn(rule, state, now);
        }
        if self.fault == Some(InjectedFault::RefillWhileLeased) {
            return;
        }
        self.held = Some(charge_what_fits(rule, state, now, self.outstanding()));
    }

    /// Moves on to the generation of `now`.
    fn turn<A: Algorithm>(&mut self, rule: &A, state: &mut A::State, now: u64) {
        let generation = now / self.length_us;
        if self.generation > generation + 1 {
            // The clock went back.
            self.generation = generation + 1;
            (self.before, self.current) = (0, self.outstanding());
        }
        for ended in [self.generation + 1, self.generation + 2] {
            let at = ended * self.length_us;
            let tokens = if ended == self.generation + 1 { &mut self.before } else { &mut self.current };
            if at <= now && *tokens > 0 {
                charge_what_fits(rule, state, at, std::mem::take(tokens));
            }
        }
        if generation > self.generation {
            self.before = if generation == self.generation + 1 { self.current } else { 0 };
            (self.generation, self.current) = (generation, 0);
        }
    }

    /// Refunds what was charged by [`hold`](KeyLeases::hold) and is still outstanding.
    pub(in crate::sim) fn release<A: Algorithm>(&mut self, rule: &A, state: &mut A::State, now: u64) {
        if let Some(held) = self.held.take() {
            let amount = held.cost.min(self.outstanding());
            rule.refund(state, now, &held, amount);
        }
        self.changed_at = now;
    }

    /// Settles and grants on the effective state. Returns the number of tokens granted, their generation and their
    /// time.
    pub(in crate::sim) fn settle_and_grant<A: Algorithm>(
        &mut self,
        rule: &A,
        state: &mut A::State,
        request: &LeaseRequest,
        now: u64,
    ) -> (u64, u64, u64) {
        if self.outstanding() == 0 {
            self.length_us = request.generation_ms * 1_000;
            self.generation = now / self.length_us;
        }
        for settlement in &request.settlements {
            let is_any = self.fault == Some(InjectedFault::SettleAnyGeneration);
            let tokens = if settlement.generation == self.generation || is_any {
                &mut self.current
            } else if settlement.generation + 1 == self.generation {
                &mut self.before
            } else {
                continue;
            };
            let returned = settlement.returned.min(*tokens);
            let spent = settlement.spent.min(*tokens - returned);
            *tokens -= returned + spent;
            self.free(rule, state, returned, now);
            if self.fault == Some(InjectedFault::ReportsBeforeRefill) {
                // Charged as if they had been spent at the last change, so that they have refilled since.
                self.free(rule, state, spent, now);
                charge_what_fits(rule, state, self.changed_at.max(1), spent);
            } else if let Some(held) = &mut self.held {
                // They stay charged.
                held.cost = held.cost.saturating_sub(spent);
            }
        }
        let room = rule.peek(state, now, 0).remaining;
        let granted = request.wanted.min(room).min(request.max_outstanding.saturating_sub(self.outstanding()));
        let charged = charge_what_fits(rule, state, now, granted);
        self.current += granted;
        if self.fault != Some(InjectedFault::RefillWhileLeased) {
            self.held = Some(Charged { cost: self.held.map_or(0, |held| held.cost) + granted, ..charged });
        }
        let ends_at = (self.generation + 2) * self.length_us;
        (granted, self.generation, ends_at.saturating_sub(now).min(2 * self.length_us))
    }

    /// Refunds some of the tokens that are charged at `now`.
    fn free<A: Algorithm>(&mut self, rule: &A, state: &mut A::State, tokens: u64, now: u64) {
        if let Some(held) = &mut self.held {
            rule.refund(state, now, held, tokens.min(held.cost));
            held.cost = held.cost.saturating_sub(tokens);
        }
    }
}

/// Charges as many tokens as fit at `at`. Returns the record of the charge.
fn charge_what_fits<A: Algorithm>(rule: &A, state: &mut A::State, at: u64, tokens: u64) -> Charged {
    let fits = tokens.min(rule.peek(state, at, 0).remaining);
    let _ = rule.check(state, at, fits);
    Charged { cost: fits, ..rule.charged(state, at, fits) }
}
