use crate::algorithm::{Algorithm, Charged};
use crate::decision::{ChargeVerdict, Decision};
use crate::quota::{AlgorithmKind, Quota};
use crate::rate::MAX_SPAN_NS;
use crate::tick::Tick;

/// A concurrency limit: at most a number of permits held at once.
///
/// If the quota has a lease, a holder that neither releases nor renews its permit within the lease loses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    permits: u64,
    /// The longest time that a permit is held without renewal; `None` without a lease.
    lease: Option<u64>,
}

/// The holders of one key's permits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    holders: Vec<Holder>,
    /// The id of the newest lease. Ids are distinct times, so that no id is used again after the state was dropped.
    last_id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    id: u64,
    until: u64,
    permits: u64,
}

impl Leases {
    /// Creates leases from a summary: `used` permits are held, and the last of them expires at `until`. The
    /// decisions are the same as with the single leases. For a store that reports only this summary.
    #[must_use]
    pub fn aggregate(used: u64, until: u64, last_id: u64) -> Leases {
        let holder = Holder { id: last_id, until, permits: used };
        Leases { holders: if used > 0 { vec![holder] } else { Vec::new() }, last_id }
    }

    /// Creates leases from holders, each as (id, end, permits). `last_id` is the id of the newest lease.
    #[must_use]
    pub fn of(holders: impl IntoIterator<Item = (u64, u64, u64)>, last_id: u64) -> Leases {
        let holders = holders.into_iter().map(|(id, until, permits)| Holder { id, until, permits }).collect();
        Leases { holders, last_id }
    }

    /// Returns the holders, each as (id, end, permits). Without a lease the end is `u64::MAX`.
    pub fn holders(&self) -> impl ExactSizeIterator<Item = (u64, u64, u64)> + '_ {
        self.holders.iter().map(|holder| (holder.id, holder.until, holder.permits))
    }

    /// Returns the id of the newest lease.
    #[must_use]
    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    /// Returns the heap bytes of the list of holders.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.holders.capacity() * size_of::<Holder>()
    }
}

impl Concurrency {
    /// Compiles a concurrency quota; `None` for other quotas.
    #[must_use]
    pub fn new(quota: &Quota, tick: Tick) -> Option<Concurrency> {
        (quota.kind() == AlgorithmKind::Concurrency).then(|| Concurrency {
            permits: quota.amount(),
            lease: (quota.period_ns() < MAX_SPAN_NS).then(|| quota.period_ns().div_ceil(tick.ns())),
        })
    }

    /// Returns the largest number of heap bytes that the holders of one key take: each permit may have its own holder,
    /// and a growing list doubles its capacity.
    #[must_use]
    pub fn max_heap_bytes(&self) -> u64 {
        const FEWEST: u64 = 4;
        self.permits.saturating_mul(2).max(FEWEST).saturating_mul(size_of::<Holder>() as u64)
    }

    /// Extends a lease to its full length from `now`. Returns `false` if the lease is already lost.
    pub fn renew(&self, leases: &mut Leases, now: u64, charged: &Charged) -> bool {
        self.drop_expired(leases, now);
        let until = self.lease_end(now);
        match leases.holders.iter_mut().find(|holder| holder.id == charged.mark) {
            Some(holder) => {
                holder.until = until;
                true
            }
            None => false,
        }
    }

    /// Returns the end of a lease that starts at `now`; `u64::MAX` without a lease.
    fn lease_end(&self, now: u64) -> u64 {
        self.lease.map_or(u64::MAX, |lease| now.saturating_add(lease))
    }

    /// Removes expired holders, and caps deadlines that lie too far ahead because the clock went back.
    fn drop_expired(&self, leases: &mut Leases, now: u64) {
        let latest = self.lease_end(now);
        leases.holders.retain_mut(|holder| {
            holder.until = holder.until.min(latest);
            holder.until > now
        });
    }

    /// Returns the number of permits held at `now`, and the time when the last of them expires.
    fn held_permits(&self, leases: &Leases, now: u64) -> (u64, u64) {
        let alive = leases.holders.iter().filter(|holder| holder.until > now);
        alive.fold((0, 0), |(used, until), holder| (used + holder.permits, until.max(holder.until)))
    }

    fn verdict(&self, used: u64, cost: u64) -> ChargeVerdict {
        if cost > self.permits {
            ChargeVerdict::Impossible
        } else if used.saturating_add(cost) <= self.permits {
            ChargeVerdict::Allowed { delay: 0 }
        } else {
            ChargeVerdict::Refused { retry_after: None }
        }
    }

    fn decision(&self, verdict: ChargeVerdict, used: u64, until: u64, now: u64) -> Decision {
        let reset_after = match until {
            0 => 0,
            u64::MAX => u64::MAX,
            until => until.min(self.lease_end(now)).saturating_sub(now),
        };
        let remaining = self.permits.saturating_sub(used);
        // The time of the next permit depends on when a holder releases one.
        Decision { verdict, limit: self.permits, remaining, next_after: 0, reset_after }
    }
}

impl Algorithm for Concurrency {
    type State = Leases;

    fn peek(&self, leases: &Leases, now: u64, cost: u64) -> Decision {
        let (used, until) = self.held_permits(leases, now);
        if cost == 0 {
            return self.decision(ChargeVerdict::Allowed { delay: 0 }, used, until, now);
        }
        let verdict = self.verdict(used, cost);
        if matches!(verdict, ChargeVerdict::Allowed { .. }) {
            return self.decision(verdict, used + cost, until.max(self.lease_end(now)), now);
        }
        self.decision(verdict, used, until, now)
    }

    fn check(&self, leases: &mut Leases, now: u64, cost: u64) -> Decision {
        let decision = self.peek(leases, now, cost);
        if cost == 0 {
            return decision;
        }
        self.drop_expired(leases, now);
        if decision.is_allowed() {
            // Distinct from the last id even when the clock is at `u64::MAX`.
            leases.last_id = if now > leases.last_id { now } else { leases.last_id.wrapping_add(1) };
            leases.holders.push(Holder { id: leases.last_id, until: self.lease_end(now), permits: cost });
        }
        decision
    }

    /// Charges nothing: a permit beyond the limit cannot be held.
    fn force(&self, _: &mut Leases, _: u64, cost: u64) -> u64 {
        cost
    }

    /// Charges nothing: a permit cannot be owed.
    fn owe(&self, _: &mut Leases, _: u64, cost: u64) -> u64 {
        cost
    }

    fn refund(&self, leases: &mut Leases, now: u64, charged: &Charged, amount: u64) {
        self.drop_expired(leases, now);
        if let Some(index) = leases.holders.iter().position(|holder| holder.id == charged.mark) {
            leases.holders[index].permits = leases.holders[index].permits.saturating_sub(amount);
            if leases.holders[index].permits == 0 {
                leases.holders.swap_remove(index);
            }
        }
    }

    fn charged(&self, leases: &Leases, now: u64, cost: u64) -> Charged {
        Charged { at: now, cost, mark: leases.last_id, part: 0 }
    }

    /// Keeps the last id: a holder from before the reset must not release the permit of a later one.
    fn reset(&self, leases: &mut Leases) {
        leases.holders = Vec::new();
    }

    fn refresh(&self, leases: &mut Leases, now: u64) {
        self.drop_expired(leases, now);
    }

    /// Carries nothing over: a permit has a holder that releases it, and the count of another algorithm has none.
    fn state_with_used(&self, _: u64, _: u64) -> Leases {
        Leases::default()
    }

    fn expires_at(&self, leases: &Leases) -> u64 {
        leases.holders.iter().map(|holder| holder.until).max().unwrap_or(0)
    }
}
