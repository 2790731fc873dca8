//! Nanoseconds per decision, in interleaved rounds.

use std::ops::Range;
use std::sync::Barrier;
use std::time::Instant;

use crate::layers::{self, Answering};
use crate::limiters::{BY_ADDRESS, BY_HEADER, Contestant, Governor, KEYS, Library, Service, THREE_RULES};

const DECISIONS: usize = 200_000;
const ANSWERS: usize = 20_000;

pub(crate) fn print_tables(is_quick: bool) {
    let rounds = if is_quick { 7 } else { 41 };
    print_limiters(rounds);
    print_layers(rounds);
}

fn print_limiters(rounds: usize) {
    let contestants: [(&str, Box<dyn Contestant>); 6] = [
        ("governor, keyed check", Box::new(Governor::new())),
        ("Limiter::check, one rule by header", Box::new(Library::new(BY_HEADER))),
        ("Limiter::check, one rule by address", Box::new(Library::new(BY_ADDRESS))),
        ("Limiter::check, three rules", Box::new(Library::new(THREE_RULES))),
        ("Engine::check, one rule by header, observed", Box::new(Service::new(BY_HEADER))),
        ("Engine::check, three rules, observed", Box::new(Service::new(THREE_RULES))),
    ];
    // The first decision of a process and of every key takes longer, and is not timed.
    contestants.iter().for_each(|(_, contestant)| decide(&**contestant, 0..KEYS));
    let [mut one, mut same, mut own] = [(); 3].map(|()| vec![Vec::new(); contestants.len()]);
    for round in 0..rounds {
        eprintln!("round {round} of {rounds}");
        for turn in 0..contestants.len() {
            let at = (turn + round) % contestants.len();
            one[at].push(alone(&*contestants[at].1));
            same[at].push(in_pairs(&*contestants[at].1, [0..KEYS, KEYS / 2..KEYS + KEYS / 2]));
            own[at].push(in_pairs(&*contestants[at].1, [0..KEYS / 2, KEYS / 2..KEYS]));
        }
    }
    println!("### Decisions in process, 1,000 keys, every request passes\n");
    println!("| | ns, 1 thread | x governor | 2 threads on the same keys, x 1 thread | on separate keys |");
    println!("| --- | --- | --- | --- | --- |");
    for (at, (name, _)) in contestants.iter().enumerate() {
        let ratios = one[at].iter().zip(&one[0]).map(|(ours, theirs)| ours / theirs).collect();
        let gain = |two: &[f64]| median(two.iter().zip(&one[at]).map(|(two, one)| one / two).collect());
        let (same, own) = (gain(&same[at]), gain(&own[at]));
        println!("| {name} | {:.1} | {:.2} | {same:.2} | {own:.2} |", median(one[at].clone()), median(ratios));
    }
}

/// Returns the nanoseconds per decision on one thread.
fn alone(contestant: &dyn Contestant) -> f64 {
    let begun = Instant::now();
    decide(contestant, 0..KEYS);
    begun.elapsed().as_nanos() as f64 / DECISIONS as f64
}

/// Returns the nanoseconds per decision on two threads, each with these keys. Two threads on the same keys, here half
/// a round apart, contend for cache lines of the table; on separate keys they share only the limiter.
fn in_pairs(contestant: &dyn Contestant, keys: [Range<usize>; 2]) -> f64 {
    let (start, begun) = (Barrier::new(3), std::sync::Mutex::new(None));
    std::thread::scope(|scope| {
        for keys in keys {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                decide(contestant, keys);
            });
        }
        start.wait();
        *begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Instant::now());
    });
    let begun = begun.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    begun.map_or(0.0, |begun: Instant| begun.elapsed().as_nanos() as f64) / (2 * DECISIONS) as f64
}

fn decide(contestant: &dyn Contestant, keys: Range<usize>) {
    let allowed = keys.cycle().take(DECISIONS).filter(|key| contestant.is_allowed(key % KEYS)).count();
    assert!(allowed == DECISIONS, "{allowed} of {DECISIONS} allowed");
}

fn print_layers(rounds: usize) {
    let mut contestants: [(&str, Box<dyn Answering>); 9] = [
        ("no layer", layers::without_layer()),
        ("tower_governor around the router, two headers", layers::governor()),
        ("tollgate around the router, one rule by header, five fields", layers::tollgate(BY_HEADER)),
        ("tollgate around the router, one rule by address, five fields", layers::tollgate(BY_ADDRESS)),
        ("tollgate around the router, three rules, five fields", layers::tollgate(THREE_RULES)),
        ("Router::layer with a layer that does nothing", layers::idle_by_router()),
        ("Router::layer with tower_governor, two headers", layers::governor_by_router()),
        ("Router::layer with tollgate, one rule by address, five fields", layers::tollgate_by_router(BY_ADDRESS)),
        ("Router::layer with tollgate, three rules, five fields", layers::tollgate_by_router(THREE_RULES)),
    ];
    let mut samples = vec![Vec::new(); contestants.len()];
    let count = contestants.len();
    for round in 0..=rounds {
        for turn in 0..count {
            let at = (turn + round) % count;
            let begun = Instant::now();
            let answered = (0..ANSWERS).filter(|key| contestants[at].1.answer(key % KEYS)).count();
            assert!(answered == ANSWERS, "{answered} of {ANSWERS} answered");
            // The first round creates the keys.
            if round > 0 {
                samples[at].push(begun.elapsed().as_nanos() as f64 / ANSWERS as f64);
            }
        }
    }
    println!("\n### An axum router in process, ns a request\n");
    println!("| | ns | above no layer |");
    println!("| --- | --- | --- |");
    for (at, (name, _)) in contestants.iter().enumerate() {
        let above = samples[at].iter().zip(&samples[0]).map(|(ours, without)| ours - without).collect();
        println!("| {name} | {:.0} | {:.0} |", median(samples[at].clone()), median(above));
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
