//! The time to render the metrics of a policy.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Instant;

use tollgate::policy::PolicyBuilder;
use tollgate::{RealClock, Request, rule};
use tollgate_server::{Engine, FrontEnd};

use crate::median;

/// The goal for a thousand rules.
const MS_MAX: f64 = 5.0;

pub(crate) fn print(quick: bool) {
    let rounds = if quick { 11 } else { 101 };
    println!("\n| rendering the metrics | lines | kilobytes | ms, median | ms, fastest | under {MS_MAX} |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    for rules in [10, 100, 1_000] {
        eprintln!("rendering {rules} rules");
        let engine = used(rules);
        let text = engine.metrics_text();
        let figures: Vec<f64> = (0..rounds).map(|_| ms_to_write(&engine)).collect();
        let fastest = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let ms = median(figures);
        let verdict = if ms < MS_MAX { "pass" } else { "fall short" };
        let (lines, kilobytes) = (text.lines().count(), text.len() / 1024);
        println!("| {rules} rules | {lines} | {kilobytes} | {ms:.2} | {fastest:.2} | {verdict} |");
    }
}

/// Creates an engine whose rules have different paths and have all been used, so that every series exists.
fn used(rules: usize) -> Engine {
    let policy = (0..rules).fold(PolicyBuilder::default(), |policy, at| {
        policy.rule(rule(&format!("rule-number-{at}")).path(&format!("/endpoint/{at}")).limit("100/s"))
    });
    let policy = policy.build().unwrap_or_else(|error| panic!("{error}"));
    let engine = Engine::new(&policy, Arc::new(RealClock::new())).unwrap_or_else(|error| panic!("{error}"));
    for at in 0..rules {
        let target = format!("/endpoint/{at}");
        let request = Request { target: &target, ..Request::from_peer(None) };
        let decided = pin!(engine.check(FrontEnd::Http, &request)).poll(&mut Context::from_waker(Waker::noop()));
        assert!(decided.is_ready());
    }
    engine
}

fn ms_to_write(engine: &Engine) -> f64 {
    let begun = Instant::now();
    black_box(engine.metrics_text());
    begun.elapsed().as_secs_f64() * 1_000.0
}
