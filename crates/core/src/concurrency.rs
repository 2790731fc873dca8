use crate::algorithm::{Algorithm, Charged};
use crate::decision::{Decision, Verdict};
use crate::quota::{AlgorithmKind, Quota};
use crate::rate::MAX_SPAN_NS;
use crate::tick::Tick;

/// At most so many permits out at once. Where the quota has a lease, a holder
/// that neither lets go nor renews within it loses its permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    permits: u64,
    /// How long a permit is held at most; `None` without a lease.
    lease: Option<u64>,
}

/// Who holds one key's permits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    holders: Vec<Holder>,
    /// Ids are times, made distinct, so that one is not used again after the state was forgotten.
    last_id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    id: u64,
    until: u64,
    permits: u64,
}

impl Leases {
    /// Leases that answer like those they are the sum of: `used` permits out,
    /// the last of which runs out at `until`. For a store that tells no more
    /// about them than that.
    #[must_use]
    pub fn summed(used: u64, until: u64, last_id: u64) -> Leases {
        let holder = Holder { id: last_id, until, permits: used };
        Leases { holders: if used > 0 { vec![holder] } else { Vec::new() }, last_id }
    }

    /// Leases of these holders, each as (id, end, permits), of which the newest has `last_id`.
    #[must_use]
    pub fn of(holders: impl IntoIterator<Item = (u64, u64, u64)>, last_id: u64) -> Leases {
        let holders = holders.into_iter().map(|(id, until, permits)| Holder { id, until, permits }).collect();
        Leases { holders, last_id }
    }

    /// The holders, each as (id, end, permits). Without a lease the end is `u64::MAX`.
    pub fn holders(&self) -> impl ExactSizeIterator<Item = (u64, u64, u64)> + '_ {
        self.holders.iter().map(|holder| (holder.id, holder.until, holder.permits))
    }

    /// The id that was given last.
    #[must_use]
    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    /// How many bytes of heap the holders take.
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

    /// The most bytes of heap that one key's holders take: each permit may have one of its own, and a list that
    /// grows doubles its room.
    #[must_use]
    pub fn most_heap_bytes(&self) -> u64 {
        const FEWEST: u64 = 4;
        self.permits.saturating_mul(2).max(FEWEST).saturating_mul(size_of::<Holder>() as u64)
    }

    /// Extends a lease to a full one from `now`. `false` if it was lost.
    pub fn renew(&self, leases: &mut Leases, now: u64, charged: &Charged) -> bool {
        self.tidy(leases, now);
        let until = self.until(now);
        match leases.holders.iter_mut().find(|holder| holder.id == charged.mark) {
            Some(holder) => {
                holder.until = until;
                true
            }
            None => false,
        }
    }

    fn until(&self, now: u64) -> u64 {
        self.lease.map_or(u64::MAX, |lease| now.saturating_add(lease))
    }

    /// Drops dead holders, and brings deadlines that a clock left ahead back into reach.
    fn tidy(&self, leases: &mut Leases, now: u64) {
        let latest = self.until(now);
        leases.holders.retain_mut(|holder| {
            holder.until = holder.until.min(latest);
            holder.until > now
        });
    }

    /// Permits out at `now`, and when the last of them runs out.
    fn held(&self, leases: &Leases, now: u64) -> (u64, u64) {
        let alive = leases.holders.iter().filter(|holder| holder.until > now);
        alive.fold((0, 0), |(used, until), holder| (used + holder.permits, until.max(holder.until)))
    }

    fn verdict(&self, used: u64, cost: u64) -> Verdict {
        if cost > self.permits {
            Verdict::Impossible
        } else if used.saturating_add(cost) <= self.permits {
            Verdict::Allowed { delay: 0 }
        } else {
            Verdict::Refused { retry_after: None }
        }
    }

    fn answer(&self, verdict: Verdict, used: u64, until: u64, now: u64) -> Decision {
        let reset_after = match until {
            0 => 0,
            u64::MAX => u64::MAX,
            until => until.min(self.until(now)).saturating_sub(now),
        };
        let remaining = self.permits.saturating_sub(used);
        // The next permit comes when somebody lets go.
        Decision { verdict, limit: self.permits, remaining, next_after: 0, reset_after }
    }
}

impl Algorithm for Concurrency {
    type State = Leases;

    fn look(&self, leases: &Leases, now: u64, cost: u64) -> Decision {
        let (used, until) = self.held(leases, now);
        if cost == 0 {
            return self.answer(Verdict::Allowed { delay: 0 }, used, until, now);
        }
        let verdict = self.verdict(used, cost);
        if matches!(verdict, Verdict::Allowed { .. }) {
            return self.answer(verdict, used + cost, until.max(self.until(now)), now);
        }
        self.answer(verdict, used, until, now)
    }

    fn check(&self, leases: &mut Leases, now: u64, cost: u64) -> Decision {
        let decision = self.look(leases, now, cost);
        if cost == 0 {
            return decision;
        }
        self.tidy(leases, now);
        if decision.is_allowed() {
            // Distinct from the last one even where the clock has come to its end.
            leases.last_id = if now > leases.last_id { now } else { leases.last_id.wrapping_add(1) };
            leases.holders.push(Holder { id: leases.last_id, until: self.until(now), permits: cost });
        }
        decision
    }

    /// A permit that is not there cannot be taken: nothing is ever forced.
    fn force(&self, _: &mut Leases, _: u64, cost: u64) -> u64 {
        cost
    }

    /// Nor can it be owed.
    fn owe(&self, _: &mut Leases, _: u64, cost: u64) -> u64 {
        cost
    }

    fn give_back(&self, leases: &mut Leases, now: u64, charged: &Charged, amount: u64) {
        self.tidy(leases, now);
        if let Some(at) = leases.holders.iter().position(|holder| holder.id == charged.mark) {
            leases.holders[at].permits = leases.holders[at].permits.saturating_sub(amount);
            if leases.holders[at].permits == 0 {
                leases.holders.swap_remove(at);
            }
        }
    }

    fn charged(&self, leases: &Leases, now: u64, cost: u64) -> Charged {
        Charged { at: now, cost, mark: leases.last_id, part: 0 }
    }

    /// The last id stays: whoever was forgotten must not let go of somebody else's permit.
    fn forget(&self, leases: &mut Leases) {
        leases.holders = Vec::new();
    }

    fn refresh(&self, leases: &mut Leases, now: u64) {
        self.tidy(leases, now);
    }

    /// A permit has a holder, who lets go of it: what another algorithm counted has none.
    fn carried(&self, _: u64, _: u64) -> Leases {
        Leases::default()
    }

    fn untouched_at(&self, leases: &Leases) -> u64 {
        leases.holders.iter().map(|holder| holder.until).max().unwrap_or(0)
    }
}
