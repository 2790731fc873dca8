//! The cost of counting, observing and logging every decision: the service with and without observation.

use crate::http_dialect::Http;
use crate::load::Load;
use crate::process::{Process, pin_to_core};
use crate::rounds::{Effort, Rounds, print_goal};

/// The goal, as a share of the requests per second without observation.
const LEAST_RATE: f64 = 0.95;

pub(crate) fn measure(effort: Effort) {
    let (blind, seen) = (Process::serve("tollgate-blind", &[]), Process::serve("tollgate-seen", &[]));
    pin_to_core(0);
    for (what, path) in [("HTTP, checks that pass", "/page"), ("HTTP, checks that are refused", "/login")] {
        let check = |at: usize| {
            let body = format!(r#"{{"ip":"203.0.113.{at}","method":"POST","path":"{path}"}}"#);
            Box::new(Http::post("/v1/check", &body)) as Box<_>
        };
        let contestants = vec![
            ("not observed", Load::connect(&blind, "http", 1, check)),
            ("observed", Load::connect(&seen, "http", 1, check)),
        ];
        let rounds = Rounds::run(what, effort, contestants);
        rounds.print(what);
        let of_blind = rounds.of_rate(1);
        print_goal(&format!("at least {LEAST_RATE}x the req/s without observation"), of_blind, of_blind >= LEAST_RATE);
    }
}
