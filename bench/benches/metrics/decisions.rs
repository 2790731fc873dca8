//! Decisions in process, with and without metrics.

use std::future::Future;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tollgate::policy::PolicyBuilder;
use tollgate::policy::model::When;
use tollgate::{RealClock, Request, Verdict, rule};
use tollgate_server::{Engine, FrontEnd};

use crate::median;

/// The number of addresses, so that decisions use more than one key.
const CLIENTS: u32 = 1_000;

/// Whether decisions are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metrics {
    On,
    Off,
}

/// Three rules that all apply: one for all clients, one by address, and one for an endpoint.
pub(crate) fn engine(metrics: Metrics) -> Engine {
    let path = When { paths: vec!["/api/*".to_owned()], ..When::default() };
    let policy = PolicyBuilder::default()
        .rule(rule("all").limit("1000000000/s"))
        .rule(rule("per-ip").per("client_ip").limit("1000000000/s"))
        .rule(rule("api").per("client_ip").limit("1000000000/s").when(path))
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    let engine = Engine::new(&policy, Arc::new(RealClock::new())).unwrap_or_else(|error| panic!("{error}"));
    match metrics {
        Metrics::On => engine,
        Metrics::Off => engine.unobserved(),
    }
}

/// Makes this number of decisions.
pub(crate) fn decide(engine: &Engine, decisions: u32) {
    for number in 0..decisions {
        let peer = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number % CLIENTS));
        let request = Request { target: "/api/items", ..Request::from_peer(Some(peer)) };
        let verdict = at_once(engine.check(FrontEnd::Http, &request));
        assert!(black_box(verdict).is_allowed());
    }
}

/// Polls a decision once: the memory store is always ready.
fn at_once(deciding: impl Future<Output = Verdict>) -> Verdict {
    match pin!(deciding).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(verdict) => verdict,
        Poll::Pending => unreachable!("a memory store answers at once"),
    }
}

pub(crate) fn print(quick: bool) {
    let (rounds, decisions) = if quick { (5, 50_000) } else { (21, 500_000) };
    println!("| decisions, three rules | ns, metrics off | ns, metrics on | more |");
    println!("| --- | ---: | ---: | ---: |");
    for threads in [1, 2] {
        eprintln!("decisions on {threads} threads");
        let (blind, seeing) = (engine(Metrics::Off), engine(Metrics::On));
        let (mut off, mut on) = (Vec::new(), Vec::new());
        // They take turns, so that other load affects both.
        for _ in 0..rounds {
            off.push(ns_each(&blind, threads, decisions));
            on.push(ns_each(&seeing, threads, decisions));
        }
        let (off, on) = (median(off), median(on));
        println!("| on {threads} threads | {off:.0} | {on:.0} | {:.0} % |", (on / off - 1.0) * 100.0);
    }
}

/// Returns the nanoseconds per decision of one thread while this number of threads decide.
fn ns_each(engine: &Engine, threads: usize, decisions: u32) -> f64 {
    let barrier = Barrier::new(threads);
    let timed = || {
        barrier.wait();
        let begun = Instant::now();
        decide(engine, decisions);
        begun.elapsed().as_nanos() as f64 / f64::from(decisions)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(timed)).collect();
        let figures = running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panic!("a thread failed")));
        median(figures.collect())
    })
}
