//! A flood of refusals on all processors, in real time.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tollgate::policy::PolicyBuilder;
use tollgate::{RealClock, rule};
use tollgate_server::Engine;
use tollgate_server::observe::{EventFormat, EventLog, IdentityFormat, Observer, ObserverSettings};

use crate::scenarios::decide;

/// The bound on log bytes per second.
const BYTES_A_SECOND: u64 = 64 << 10;

/// Every fourth refusal is of one of these clients; the others are of a hundred thousand clients.
const HEAVY_CLIENTS: u32 = 10;
const LIGHT_CLIENTS: u32 = 100_000;

/// A writer that counts bytes.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicU64>);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.fetch_add(bytes.len() as u64, Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log bytes and the memory of the program, second by second.
#[derive(Default)]
struct Course {
    most_bytes: u64,
    written: u64,
    first_kib: u64,
    last_kib: u64,
}

pub(crate) fn report(seconds: u64) {
    eprintln!("a flood of {seconds} seconds");
    let clock = Arc::new(RealClock::new());
    let written = Counted::default();
    let log = Some(EventLog::start(EventFormat::Json, written.clone()).unwrap());
    // Plain client IDs, so that the list can be compared with the requests.
    let settings = ObserverSettings { identities: IdentityFormat::Plain, key_file: None, log };
    let observer = Arc::new(Observer::new(settings, clock.clone()).unwrap());
    let policy = PolicyBuilder::default().rule(rule("per-ip").per("client_ip").limit("1/day")).build().unwrap();
    let engine = Engine::with_observer(&policy, clock, observer, |_| {}).unwrap();
    for client in 0..HEAVY_CLIENTS + LIGHT_CLIENTS {
        assert!(decide(&engine, client), "a client is refused at once");
    }

    let stop = AtomicBool::new(false);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let begun = Instant::now();
    let (course, refused) = std::thread::scope(|scope| {
        let flooding: Vec<_> = (0..threads)
            .map(|at| {
                scope.spawn({
                    let (engine, stop) = (&engine, &stop);
                    move || flood(engine, at, stop)
                })
            })
            .collect();
        let course = watch(&engine, &written, seconds);
        stop.store(true, Relaxed);
        (course, flooding.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>())
    });
    let taken_s = begun.elapsed().as_secs_f64();
    let total: u64 = refused.iter().map(|(total, _)| total).sum();
    println!("\n### A flood of {taken_s:.0} seconds on {threads} threads\n");
    println!("- {:.0} refusals a second", total as f64 / taken_s);
    let word = if course.most_bytes <= BYTES_A_SECOND { "met" } else { "MISSED" };
    println!(
        "- the log: {} bytes in all, at most {} in a second; goal, at most {BYTES_A_SECOND}: {word}",
        course.written, course.most_bytes
    );
    println!("- memory: {} KiB resident after the first second, {} KiB at the end", course.first_kib, course.last_kib);
    print_top_clients(&engine, &refused);
}

/// Sends requests until `stop`. Returns the number of refusals, in all and for each heavy client.
fn flood(engine: &Engine, at: usize, stop: &AtomicBool) -> (u64, HashMap<u32, u64>) {
    let mut number = at as u32;
    let mut total = 0;
    let mut heavy: HashMap<u32, u64> = HashMap::new();
    while !stop.load(Relaxed) {
        for _ in 0..10_000 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let drawn = number >> 8;
            let client =
                if drawn & 3 == 0 { drawn / 4 % HEAVY_CLIENTS } else { HEAVY_CLIENTS + drawn / 4 % LIGHT_CLIENTS };
            assert!(!decide(engine, client), "a client passes twice");
            if client < HEAVY_CLIENTS {
                *heavy.entry(client).or_default() += 1;
            }
            total += 1;
        }
    }
    (total, heavy)
}

/// Runs the periodic work once a second, as the service does.
fn watch(engine: &Engine, written: &Counted, seconds: u64) -> Course {
    let mut course = Course::default();
    for second in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        engine.observer().run_periodic();
        let now = written.0.load(Relaxed);
        course.most_bytes = course.most_bytes.max(now - course.written);
        course.written = now;
        course.last_kib = resident_kib();
        if second == 0 {
            course.first_kib = course.last_kib;
        }
    }
    course
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Prints the list of top clients and the exact counts. The list covers the last 30 to 60 seconds, so only a flood
/// within one window can be compared.
fn print_top_clients(engine: &Engine, refused: &[(u64, HashMap<u32, u64>)]) {
    let total = engine.observer().refusals("per-ip");
    let top = engine.observer().top("per-ip", HEAVY_CLIENTS as usize);
    let heavy = |name: &str| (0..HEAVY_CLIENTS).any(|client| Ipv4Addr::from(client).to_string() == name);
    let found = top.iter().filter(|offender| heavy(&offender.client)).count();
    let worst = top.iter().map(|offender| offender.error).max().unwrap_or(0);
    println!(
        "- top clients: {found} of the {HEAVY_CLIENTS} heaviest found; the largest error is {worst} of {total} refusals ({:.2} %)",
        worst as f64 * 100.0 / total.max(1) as f64
    );
    let all: u64 = refused.iter().map(|(total, _)| total).sum();
    if all == total {
        let exact = |name: &str| -> u64 {
            let client = (0..HEAVY_CLIENTS).find(|client| Ipv4Addr::from(*client).to_string() == name);
            refused.iter().filter_map(|(_, heavy)| heavy.get(&client?)).sum()
        };
        let right = top.iter().filter(|offender| {
            let truth = exact(&offender.client);
            offender.count - offender.error <= truth && truth <= offender.count
        });
        println!("- of these, {} are within their error of the exact count", right.count());
    }
}
