//! The cost of many keys: ten million compared with ten thousand, over RESP.

use std::time::Duration;

use crate::load::Load;
use crate::process::{Process, pin_to_core};
use crate::resp_dialect::Resp;
use crate::rounds::{Effort, Rounds, print_goal};

const FEW: u64 = 10_000;
const MANY: u64 = 10_000_000;

/// The entries of the store: caller-supplied keys have half as many, which leaves the table sparse.
const ENTRIES: &str = "32000000";

/// The goal, as a share of the commands per second with few keys.
const LEAST_RATE: f64 = 0.7;

pub(crate) fn measure(effort: Effort) {
    let few = Process::serve("tollgate", &["--entries", ENTRIES]);
    let many = Process::serve("tollgate", &["--entries", ENTRIES]);
    pin_to_core(0);
    let any_of = |keys: u64| move |at: usize| Box::new(Resp::throttle_any_of(keys, at as u64 + 1)) as Box<_>;
    eprintln!("keys: filling the table");
    let mut filling = Load::connect(&many, "resp", 16, any_of(MANY));
    let mut asked = 0.0;
    // Five random commands per key leave fewer than one key in a hundred unused.
    while asked < 5.0 * MANY as f64 {
        asked += filling.run(Duration::from_secs(1)).per_second;
    }
    drop(filling);
    for at_a_time in [1, 16] {
        let contestants = vec![
            ("10 thousand keys", Load::connect(&few, "resp", at_a_time, any_of(FEW))),
            ("10 million keys", Load::connect(&many, "resp", at_a_time, any_of(MANY))),
        ];
        let what = format!("CL.THROTTLE, {at_a_time} at a time");
        let rounds = Rounds::run(&what, effort, contestants);
        rounds.print(&format!("{what}, keys chosen at random"));
        let of_few = rounds.of_rate(1);
        print_goal(&format!("at least {LEAST_RATE}x the req/s of few keys"), of_few, of_few >= LEAST_RATE);
    }
    println!("\nMemory: {} MB with few keys, {} MB with many.", few.resident_mb(), many.resident_mb());
}
