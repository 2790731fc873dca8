//! For any concurrent operations on a key, no more than the limit is admitted, and nothing is lost.

#![allow(clippy::unwrap_used)]

mod quotas;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use quotas::every_algorithm;
use tollgate_core::max_admitted;
use tollgate_store::{
    AlgorithmKind, Capacity, ChargeVerdict, Clock, Limit, ManualClock, MemoryOptions, MemoryStore, Quota, WhenFull,
};

const START_NS: u64 = 1 << 60;
const MS_NS: u64 = 1_000_000;

/// A clock that often yields the thread after a read: between reading the time and using it, other threads overtake.
#[derive(Clone)]
struct Interrupting(ManualClock);

impl Clock for Interrupting {
    fn now_ns(&self) -> u64 {
        static READINGS: AtomicU64 = AtomicU64::new(0);
        let now_ns = self.0.now_ns();
        // Usually for a moment; sometimes for so long that keys expire meanwhile.
        match READINGS.fetch_add(1, Ordering::Relaxed) % 192 {
            0 => (0..400).for_each(|_| thread::yield_now()),
            reading if reading % 3 == 0 => thread::yield_now(),
            _ => {}
        }
        now_ns
    }
}

fn store_at(clock: &ManualClock) -> MemoryStore {
    MemoryStore::with(MemoryOptions::default(), Interrupting(clock.clone())).unwrap()
}

/// Runs `work` in `threads` threads at once and returns their results.
fn in_threads<R: Send>(threads: u64, work: impl Fn(u64) -> R + Sync) -> Vec<R> {
    let work = &work;
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|number| scope.spawn(move || work(number))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}

/// Pseudo-random numbers, the same in every run.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

#[test]
fn threads_admit_exactly_the_limit_with_a_stopped_clock() {
    for (threads, keys) in [(4, 1), (8, 1), (4, 3), (8, 3)] {
        for quota in every_algorithm("300/h") {
            let store = store_at(&ManualClock::at(START_NS));
            let limit = store.limit("all", quota).unwrap();
            let most = store.peek(&limit, &0).limit;
            let admitted: Vec<_> = (0..keys).map(|_| AtomicU64::new(0)).collect();
            in_threads(threads, |_| {
                for _ in 0..=most / threads + 20 {
                    for (key, admitted) in admitted.iter().enumerate() {
                        if store.check(&limit, &(key as u64), 1).is_allowed() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
            for (key, admitted) in admitted.iter().enumerate() {
                assert_eq!(admitted.load(Ordering::Relaxed), most, "{quota:?}, {threads} threads");
                assert_eq!(store.peek(&limit, &(key as u64)).remaining, 0, "{quota:?}");
            }
        }
    }
}

#[test]
fn threads_admit_the_burst_and_every_refilled_token() {
    const TICKS: u64 = 400;
    for rate in ["1000/s burst 50", "3000/s burst 50", "7000/s burst 50"] {
        let clock = ManualClock::at(START_NS);
        let store = store_at(&clock);
        let quota = Quota::token_bucket(rate.parse().unwrap()).unwrap();
        let limit = store.limit("bucket", quota).unwrap();
        let (admitted, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    loop {
                        // Read first: after the last tick there is one more round, which leaves nothing.
                        let last = is_over.load(Ordering::SeqCst);
                        while store.check(&limit, "key", 1).is_allowed() {
                            let so_far = admitted.fetch_add(1, Ordering::SeqCst) + 1;
                            let span_ns = clock.now_ns() - START_NS + 1;
                            assert!(so_far <= max_admitted(&quota, span_ns).unwrap());
                        }
                        if last {
                            break;
                        }
                        thread::yield_now();
                    }
                });
            }
            for _ in 0..TICKS {
                // A refill of a full bucket is lost, so the clock waits for a charge.
                while store.peek(&limit, "key").remaining > quota.burst() / 2 {
                    thread::yield_now();
                }
                clock.advance(Duration::from_millis(1));
            }
            is_over.store(true, Ordering::SeqCst);
        });
        let refilled = TICKS * MS_NS * quota.amount() / quota.period_ns();
        assert_eq!(admitted.load(Ordering::SeqCst), quota.burst() + refilled, "{rate}");
    }
}

#[test]
fn threads_admit_no_more_than_the_bound_of_each_algorithm() {
    for quota in every_algorithm("20/10ms") {
        if matches!(quota.kind(), AlgorithmKind::LeakyQueue | AlgorithmKind::Concurrency) {
            continue; // Their bounds are about departures and about an instant.
        }
        let clock = ManualClock::at(START_NS);
        let store = store_at(&clock);
        let limit = store.limit("all", quota).unwrap();
        let admissions = in_threads(4, |_| stamped_checks(&store, &limit, &clock, |_| 0, 1_500));
        assert_bounded(&quota, admissions.into_iter().flatten().collect());
    }
}

/// An admission of one key, decided between the two times.
#[derive(Clone, Copy, Debug)]
struct Stamped {
    key: u64,
    from: u64,
    to: u64,
}

/// Checks keys and advances the clock a little after each.
fn stamped_checks(
    store: &MemoryStore,
    limit: &Limit,
    clock: &ManualClock,
    mut key: impl FnMut(u64) -> u64,
    checks: u64,
) -> Vec<Stamped> {
    let mut admitted = Vec::new();
    for number in 0..checks {
        let (key, from) = (key(number), clock.now_ns());
        let decision = store.check(limit, &key, 1);
        let to = clock.now_ns();
        clock.advance(Duration::from_nanos(MS_NS / 64));
        if decision.is_allowed() {
            admitted.push(Stamped { key, from, to });
        } else if decision.verdict == ChargeVerdict::Unavailable {
            thread::yield_now();
        }
    }
    admitted
}

/// In any span, the admissions that were certainly decided within it are at most what the quota admits.
fn assert_bounded(quota: &Quota, mut admissions: Vec<Stamped>) {
    admissions.sort_by_key(|admission| (admission.key, admission.from));
    for of_one_key in admissions.chunk_by(|a, b| a.key == b.key) {
        for (at, first) in of_one_key.iter().enumerate() {
            let mut ends: Vec<_> = of_one_key[at..].iter().map(|admission| admission.to).collect();
            ends.sort_unstable();
            for (before, end) in ends.iter().enumerate() {
                let (count, span_ns) = (before as u64 + 1, end - first.from + 1);
                let most = max_admitted(quota, span_ns).unwrap();
                assert!(count <= most, "{count} of {most} in {span_ns} ns for {}: {quota:?}", first.key);
            }
        }
    }
}

#[test]
fn reassigned_slots_give_no_key_a_second_budget() {
    // A bucket's tokens refill in 1 ms, in which the threads do 64 checks; there are fewer slots than keys.
    const KEYS: u64 = 96;
    let options = MemoryOptions { capacity: Capacity::Entries(8), when_full: WhenFull::RefuseNew };
    let mut quotas = every_algorithm("2/2ms");
    quotas.push(Quota::token_bucket("1/ms burst 1".parse().unwrap()).unwrap());
    for quota in quotas {
        if matches!(quota.kind(), AlgorithmKind::LeakyQueue | AlgorithmKind::Concurrency) {
            continue;
        }
        let clock = ManualClock::at(START_NS);
        let store = MemoryStore::with(options, Interrupting(clock.clone())).unwrap();
        let limit = store.limit("all", quota).unwrap();
        let admissions = in_threads(4, |number| {
            let mut noise = Noise(number + 1);
            // A few keys recur often, so that they expire and return under contention.
            let key = |_| if noise.below(2) == 0 { noise.below(4) } else { noise.below(KEYS) };
            stamped_checks(&store, &limit, &clock, key, 6_000)
        });
        let admissions: Vec<_> = admissions.into_iter().flatten().collect();
        let mut keys: Vec<_> = admissions.iter().map(|admission| admission.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert!(keys.len() as u64 > KEYS / 2, "slots were used again: {} keys, {quota:?}", keys.len());
        assert_eq!(store.stats().evictions, 0);
        assert_bounded(&quota, admissions);
    }
}

#[test]
fn concurrent_joint_checks_exceed_no_limit_and_leave_no_charge_if_refused() {
    const THREADS: u64 = 4;
    let store = store_at(&ManualClock::at(START_NS));
    let quotas = [
        Quota::token_bucket("150/h".parse().unwrap()),
        Quota::fixed_window("200/h".parse().unwrap()),
        Quota::sliding_window_log("120/h".parse().unwrap()),
        Quota::sliding_window_counter("170/h".parse().unwrap()),
        Quota::concurrency(130, None),
    ];
    let limits: Vec<_> = quotas
        .into_iter()
        .enumerate()
        .map(|(number, quota)| store.limit(&number.to_string(), quota.unwrap()).unwrap())
        .collect();
    // All threads share key 0; each of the others belongs to one thread.
    let charged: Vec<Vec<_>> = limits.iter().map(|_| (0..=THREADS).map(|_| AtomicU64::new(0)).collect()).collect();
    in_threads(THREADS, |thread| {
        let (mut noise, mut decisions) = (Noise(thread + 1), Vec::new());
        for _ in 0..1_200 {
            let first = noise.below(limits.len() as u64);
            let wanted: Vec<_> = (0..3)
                .map(|step| {
                    let limit = (first + step * (1 + noise.below(2))) % limits.len() as u64;
                    let key = if noise.below(3) == 0 { thread + 1 } else { 0 };
                    (limit as usize, key, 1 + noise.below(3))
                })
                .collect();
            let charges: Vec<_> =
                wanted.iter().map(|(limit, key, cost)| store.charge(&limits[*limit], key, *cost)).collect();
            if store.check_all(&charges, &mut decisions) {
                for (limit, key, cost) in wanted {
                    charged[limit][key as usize].fetch_add(cost, Ordering::Relaxed);
                }
            }
        }
    });
    for (limit, charged) in limits.iter().zip(&charged) {
        for (key, charged) in charged.iter().enumerate() {
            let (left, charged) = (store.peek(limit, &(key as u64)), charged.load(Ordering::Relaxed));
            assert!(charged <= left.limit, "{limit:?}");
            assert_eq!(left.remaining, left.limit - charged, "{limit:?}");
        }
    }
    assert!(charged.iter().any(|of_limit| of_limit[0].load(Ordering::Relaxed) > 100), "the limits were fought for");
}

#[test]
fn concurrent_refunds_restore_the_limit() {
    for quota in every_algorithm("40/h") {
        if quota.kind() == AlgorithmKind::LeakyQueue {
            continue; // Only the last reservation is refunded.
        }
        let store = store_at(&ManualClock::at(START_NS));
        let limit = store.limit("all", quota).unwrap();
        let most = store.peek(&limit, "key").limit;
        let out = AtomicU64::new(0);
        in_threads(4, |thread| {
            let mut noise = Noise(thread + 1);
            for _ in 0..800 {
                let cost = 1 + noise.below(15);
                if let (_, Some(receipt)) = store.check_with_receipt(&limit, "key", cost) {
                    let now_out = out.fetch_add(cost, Ordering::SeqCst) + cost;
                    assert!(now_out <= most, "{now_out} of {most} out at once: {quota:?}");
                    thread::yield_now();
                    out.fetch_sub(cost, Ordering::SeqCst);
                    store.refund(receipt);
                }
            }
        });
        assert_eq!(store.peek(&limit, "key").remaining, most, "{quota:?}");
    }
}

#[test]
fn key_reset_and_charged_by_threads_never_exceeds_its_limit() {
    let store = store_at(&ManualClock::at(START_NS));
    let limit = store.limit("all", Quota::token_bucket("10/h".parse().unwrap()).unwrap()).unwrap();
    let (admitted, resets) = (AtomicU64::new(0), AtomicU64::new(0));
    in_threads(4, |thread| {
        for round in 0..2_000 {
            if thread == 0 && round % 100 == 0 {
                resets.fetch_add(1, Ordering::SeqCst);
                store.reset(&limit, "key");
            } else if store.check(&limit, "key", 1).is_allowed() {
                let so_far = admitted.fetch_add(1, Ordering::SeqCst) + 1;
                assert!(so_far <= 10 * (resets.load(Ordering::SeqCst) + 1));
            }
        }
    });
}
