//! The gRPC front end: one descriptor of an address under one rule.

use crate::grpc_dialect::Rls;
use crate::load::Load;
use crate::process::{Process, pin_to_core};
use crate::rounds::{Effort, Rounds, print_goal};

/// The goal, as a share of the floor's calls per second.
const LEAST_RATE: f64 = 0.9;

const TOLLGATE: usize = 1;

pub(crate) fn measure(effort: Effort) {
    let (floor, tollgate) = (Process::serve("grpc-floor", &[]), Process::serve("tollgate", &[]));
    pin_to_core(0);
    // A gateway has many calls in flight on each connection.
    for at_a_time in [1, 16] {
        let ask = |at: usize| Box::new(Rls::of_address(at)) as Box<_>;
        let contestants = vec![
            ("floor: tonic, one answer", Load::connect(&floor, "grpc", at_a_time, ask)),
            ("tollgate, one rule", Load::connect(&tollgate, "grpc", at_a_time, ask)),
        ];
        let what = format!("gRPC, {at_a_time} at a time");
        let rounds = Rounds::run(&what, effort, contestants);
        rounds.print(&what);
        let of_floor = rounds.of_rate(TOLLGATE);
        print_goal(&format!("at least {LEAST_RATE}x the floor's req/s"), of_floor, of_floor >= LEAST_RATE);
    }
}
