//! What it costs a caller that every decision is counted, seen and told of:
//! the service beside itself with nobody who watches.

use crate::http_dialect::Http;
use crate::load::Load;
use crate::process::{Process, pin_to_core};
use crate::rounds::{Effort, Rounds, print_goal};

/// So much of the requests a second must be left.
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
            ("nobody watches", Load::connect(&blind, "http", 1, check)),
            ("everything is on", Load::connect(&seen, "http", 1, check)),
        ];
        let rounds = Rounds::run(what, effort, contestants);
        rounds.print(what);
        let of_blind = rounds.of_rate(1);
        print_goal(&format!("at least {LEAST_RATE}x the req/s of nobody"), of_blind, of_blind >= LEAST_RATE);
    }
}
