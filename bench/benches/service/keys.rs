//! What more keys cost: ten million beside ten thousand, over RESP.

use std::time::Duration;

use crate::load::Load;
use crate::process::{Process, pin_to_core};
use crate::resp_dialect::Resp;
use crate::rounds::{Effort, Rounds, print_goal};

const FEW: u64 = 10_000;
const MANY: u64 = 10_000_000;

/// Room for all of them in a table that is not crowded: keys of callers have half of it.
const ENTRIES: &str = "32000000";

/// So much of the commands a second must be left.
const LEAST_RATE: f64 = 0.7;

pub(crate) fn measure(effort: Effort) {
    let few = Process::serve("tollgate", &["--entries", ENTRIES]);
    let many = Process::serve("tollgate", &["--entries", ENTRIES]);
    pin_to_core(0);
    let any_of = |keys: u64| move |at: usize| Box::new(Resp::throttle_any_of(keys, at as u64 + 1)) as Box<_>;
    eprintln!("keys: filling the table");
    let mut filling = Load::connect(&many, "resp", 16, any_of(MANY));
    let mut asked = 0.0;
    // At random, five times as many as there are keys leave fewer than one in a hundred out.
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
