//! The cost of open pages: the service with ten live streams, compared with the same service without any.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::http_dialect::Http;
use crate::load::Load;
use crate::process::{Process, pin_to_core};
use crate::rounds::{Effort, Rounds, print_goal};

const PAGES: usize = 10;

/// The goals, as shares of the service without pages.
const LEAST_RATE: f64 = 0.98;
const MOST_CPU: f64 = 1.02;

pub(crate) fn measure(is_quick: bool) {
    // The status is computed once a second, so each turn has one. Another process computes it in the turns of the first,
    // too, on the same core; its processor time counts for it alone.
    let effort = Effort { rounds: if is_quick { 3 } else { 41 }, turn: Duration::from_secs(1) };
    let (alone, watched) = (Process::serve("tollgate-page", &[]), Process::serve("tollgate-page", &[]));
    let received = Arc::new(AtomicU64::new(0));
    (0..PAGES).for_each(|_| open_stream(&watched, &received));
    pin_to_core(0);
    for (what, path) in [("HTTP, checks that pass", "/page"), ("HTTP, checks that are refused", "/login")] {
        let check = |at: usize| {
            let body = format!(r#"{{"ip":"203.0.113.{at}","method":"POST","path":"{path}"}}"#);
            Box::new(Http::post("/v1/check", &body)) as Box<_>
        };
        let contestants = vec![
            ("no page", Load::connect(&alone, "http", 1, check)),
            ("ten pages", Load::connect(&watched, "http", 1, check)),
        ];
        let rounds = Rounds::run(what, effort, contestants);
        rounds.print(what);
        let (rate, cpu) = (rounds.of_rate(1), rounds.of_cpu(1));
        print_goal(&format!("at least {LEAST_RATE}x the req/s without a page"), rate, rate >= LEAST_RATE);
        print_goal(&format!("at most {MOST_CPU}x the CPU time without a page"), cpu, cpu <= MOST_CPU);
    }
    let bytes = received.load(Relaxed);
    assert!(bytes > 0, "the pages receive no status");
    eprintln!("the pages received {bytes} bytes");
}

/// Subscribes to the live stream, and reads it on a thread until the process ends.
fn open_stream(server: &Process, received: &Arc<AtomicU64>) {
    let address = server.address("admin");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET /api/live HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes()).unwrap();
    let received = Arc::clone(received);
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            received.fetch_add(length as u64, Relaxed);
        }
    });
}
