//! The free permits are those that a plain list of leases has free.

// Helpers of tests panic as tests do.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::cases;
use common::quotas::{any_magnitude, any_tick};
use common::traces::any_start;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use tollgate_core::{Algorithm, ChargeVerdict, Charged, Concurrency, Leases, Quota, Tick};

#[derive(Clone, Debug)]
enum Event {
    /// A percentage of the lease.
    Forward(u64),
    Acquire(u64),
    Release(Index),
    /// Settles down to this percentage of the permits.
    Settle(Index, u64),
    Renew(Index),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => prop_oneof![0_u64..60, Just(99), Just(100), Just(101)].prop_map(Event::Forward),
        6 => prop_oneof![0_u64..4, Just(u64::MAX)].prop_map(Event::Acquire),
        3 => any::<Index>().prop_map(Event::Release),
        1 => (any::<Index>(), 0_u64..=100).prop_map(|(index, percent)| Event::Settle(index, percent)),
        2 => any::<Index>().prop_map(Event::Renew),
    ]
}

/// A holder in the list. It has expired after its end.
struct Lease {
    receipt: Charged,
    permits: u64,
    ends: u64,
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn free_permits_are_those_without_a_live_holder(
        permits in prop_oneof![1_u64..6, any_magnitude(1_000_000_000_000)],
        lease_ns in prop_oneof![Just(None), (1_u64..5_000).prop_map(Some), any_magnitude(1 << 50).prop_map(Some)],
        (tick, start) in any_tick().prop_flat_map(|tick| (Just(tick), any_start(tick))),
        events in vec(any_event(), 1..60),
    ) {
        let quota = Quota::concurrency(permits, lease_ns.map(Duration::from_nanos)).unwrap();
        let concurrency = Concurrency::new(&quota, tick).unwrap();
        // The unit of time never shortens a lease.
        let lease = lease_ns.map(|ns| ns.div_ceil(tick.ns()));
        let ends_at = |now: u64| lease.map_or(u64::MAX, |lease| now + lease);
        let mut leases = Leases::default();
        let mut list: Vec<Lease> = Vec::new();
        let mut now = start;
        for event in events {
            let held: u64 = list.iter().filter(|lease| lease.ends > now).map(|lease| lease.permits).sum();
            match event {
                Event::Forward(percent) => now += (u128::from(lease.unwrap_or(1_000)) * u128::from(percent) / 100) as u64,
                Event::Acquire(cost) => {
                    let decision = concurrency.check(&mut leases, now, cost);
                    let expected = if cost == 0 || cost <= permits - held {
                        ChargeVerdict::Allowed { delay: 0 }
                    } else if cost > permits {
                        ChargeVerdict::Impossible
                    } else {
                        ChargeVerdict::Refused { retry_after: None }
                    };
                    prop_assert_eq!(decision.verdict, expected);
                    if decision.is_allowed() && cost > 0 {
                        let receipt = concurrency.charged(&leases, now, cost);
                        prop_assert!(list.iter().all(|lease| lease.receipt.mark != receipt.mark), "an id twice");
                        list.push(Lease { receipt, permits: cost, ends: ends_at(now) });
                    }
                }
                Event::Release(index) if !list.is_empty() => {
                    let lease = list.swap_remove(index.index(list.len()));
                    concurrency.refund(&mut leases, now, &lease.receipt, lease.permits);
                    // A receipt that is used twice releases no other holder's permit.
                    concurrency.refund(&mut leases, now, &lease.receipt, lease.permits);
                }
                Event::Settle(index, percent) if !list.is_empty() => {
                    let at = index.index(list.len());
                    let lease = &mut list[at];
                    let receipt = Charged { cost: lease.permits, ..lease.receipt };
                    lease.permits = (u128::from(lease.permits) * u128::from(percent) / 100) as u64;
                    let settled = concurrency.settle(&mut leases, now, &receipt, lease.permits);
                    prop_assert_eq!(settled.overrun, 0);
                }
                Event::Renew(index) if !list.is_empty() => {
                    let at = index.index(list.len());
                    let lives = list[at].ends > now && list[at].permits > 0;
                    prop_assert_eq!(concurrency.renew(&mut leases, now, &list[at].receipt), lives);
                    if lives {
                        list[at].ends = ends_at(now);
                    }
                }
                Event::Release(_) | Event::Settle(..) | Event::Renew(_) => {}
            }
            let living = || list.iter().filter(|lease| lease.ends > now && lease.permits > 0);
            let held: u64 = living().map(|lease| lease.permits).sum();
            prop_assert!(held <= permits, "{held} permits are out");
            let seen = concurrency.peek(&leases, now, 0);
            prop_assert_eq!((seen.limit, seen.remaining), (permits, permits - held));
            let last_end = living().map(|lease| lease.ends).max();
            let reset_after = last_end.map_or(0, |end| if end == u64::MAX { u64::MAX } else { end - now });
            prop_assert_eq!(seen.reset_after, reset_after);
        }
    }

    #[test]
    fn clock_step_back_extends_a_permit_by_at_most_one_lease(
        lease in 1_u64..1_000_000,
        back in any_magnitude(1 << 59),
    ) {
        let quota = Quota::concurrency(1, Some(Duration::from_nanos(lease))).unwrap();
        let concurrency = Concurrency::new(&quota, Tick::Nanosecond).unwrap();
        let mut leases = Leases::default();
        let start = 1 << 60;
        prop_assert!(concurrency.check(&mut leases, start, 1).is_allowed());
        let now = start - back;
        prop_assert!(!concurrency.check(&mut leases, now, 1).is_allowed());
        prop_assert!(!concurrency.check(&mut leases, now + lease - 1, 1).is_allowed());
        prop_assert!(concurrency.check(&mut leases, now + lease, 1).is_allowed());
    }
}

#[test]
fn force_takes_no_permit() {
    let concurrency = Concurrency::new(&Quota::concurrency(2, None).unwrap(), Tick::Nanosecond).unwrap();
    let mut leases = Leases::default();
    assert_eq!(concurrency.force(&mut leases, 5, 3), 3);
    assert_eq!(leases, Leases::default());
}

#[test]
fn lowered_permit_limit_admits_none_until_holders_release() {
    let with = |permits| Concurrency::new(&Quota::concurrency(permits, None).unwrap(), Tick::Nanosecond).unwrap();
    let (five, two) = (with(5), with(2));
    let mut leases = Leases::default();
    let receipts = [7, 8, 9].map(|now| {
        assert!(five.check(&mut leases, now, 1).is_allowed());
        five.charged(&leases, now, 1)
    });
    assert_eq!(two.check(&mut leases, 10, 1).remaining, 0);
    two.refund(&mut leases, 10, &receipts[0], 1);
    assert!(!two.check(&mut leases, 10, 1).is_allowed());
    two.refund(&mut leases, 10, &receipts[2], 1);
    assert!(two.check(&mut leases, 10, 1).is_allowed());
}

#[test]
fn permits_in_the_last_tick_of_the_clock_have_distinct_ids() {
    let quota = Quota::concurrency(3, Some(Duration::from_secs(1))).unwrap();
    let concurrency = Concurrency::new(&quota, Tick::Nanosecond).unwrap();
    let mut leases = Leases::default();
    let [first, second] = [u64::MAX, u64::MAX - 5].map(|now| {
        assert!(concurrency.check(&mut leases, now, 1).is_allowed());
        concurrency.charged(&leases, now, 1)
    });
    assert_ne!(first.mark, second.mark);
}
