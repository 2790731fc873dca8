//! The HTTP front end: `POST /v1/check` under one rule.

use crate::http_dialect::Http;
use crate::load::Load;
use crate::peers;
use crate::process::{Process, pin_to_core};
use crate::rounds::{Effort, Rounds, print_goal};

/// The goal, as a share of the floor's requests per second.
const LEAST_RATE: f64 = 0.9;

const TOLLGATE: usize = 1;

pub(crate) fn measure(effort: Effort) {
    let (floor, tollgate) = (Process::serve("http-floor", &[]), Process::serve("tollgate", &[]));
    let throttlecrab = peers::throttlecrab("http");
    pin_to_core(0);
    let check = |at: usize| Box::new(Http::check(at)) as Box<_>;
    let mut contestants = vec![
        ("floor: hyper, constant response", Load::connect(&floor, "http", 1, check)),
        ("tollgate, one rule", Load::connect(&tollgate, "http", 1, check)),
    ];
    if let Some(throttlecrab) = &throttlecrab {
        let throttle = |at: usize| {
            let body =
                format!(r#"{{"key":"203.0.113.{at}","max_burst":2000000,"count_per_period":1000000,"period":1}}"#);
            Box::new(Http::post("/throttle", &body)) as Box<_>
        };
        contestants.push(("throttlecrab", Load::connect(throttlecrab, "", 1, throttle)));
    }
    let rounds = Rounds::run("HTTP", effort, contestants);
    rounds.print("HTTP, a check");
    let of_floor = rounds.of_rate(TOLLGATE);
    print_goal(&format!("at least {LEAST_RATE}x the floor's req/s"), of_floor, of_floor >= LEAST_RATE);
}
