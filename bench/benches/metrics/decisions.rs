//! Decisions in this process, counted and not.

use std::future::Future;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tollgate::policy::model::When;
use tollgate::{PolicyBuilder, RealClock, Request, Verdict, rule};
use tollgate_server::{Engine, FrontEnd};

use crate::median;

/// Addresses that take turns, so that decisions are about more than one key.
const CLIENTS: u32 = 1_000;

/// Whether decisions are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metrics {
    On,
    Off,
}

/// Three rules that all apply: for everybody, by address, and for one kind of endpoint.
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

/// So many decisions, one after the other.
pub(crate) fn decide(engine: &Engine, decisions: u32) {
    for number in 0..decisions {
        let peer = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number % CLIENTS));
        let request = Request { target: "/api/items", ..Request::from_peer(Some(peer)) };
        let verdict = at_once(engine.decide(FrontEnd::Http, &request));
        assert!(black_box(verdict).is_allowed());
    }
}

/// A store in this process answers at the first poll.
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
        // They take turns, so that a neighbour's work falls on both.
        for _ in 0..rounds {
            off.push(ns_each(&blind, threads, decisions));
            on.push(ns_each(&seeing, threads, decisions));
        }
        let (off, on) = (median(off), median(on));
        println!("| on {threads} threads | {off:.0} | {on:.0} | {:.0} % |", (on / off - 1.0) * 100.0);
    }
}

/// How long a decision takes a thread while so many decide.
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
