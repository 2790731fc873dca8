//! The RESP front end: one command at a time, and pipelined.

use crate::load::Load;
use crate::peers;
use crate::process::{Process, pin_to_core};
use crate::resp_dialect::Resp;
use crate::rounds::{Effort, Rounds, print_goal};

/// The goal for one command at a time, as a multiple of the floor's processor time.
const MOST_CPU: f64 = 1.15;

/// The goal for pipelined commands, as a share of the floor's commands per second.
const LEAST_RATE: f64 = 0.85;

const TOLLGATE: usize = 1;

pub(crate) fn measure(effort: Effort) {
    let floor = Process::serve("resp-floor", &[]);
    let (one_key, many_keys) = (Process::serve("tollgate", &[]), Process::serve("tollgate", &[]));
    let (redis, throttlecrab) = (peers::redis(), peers::throttlecrab("redis"));
    pin_to_core(0);
    for at_a_time in [1, 16] {
        let throttle = |connection: usize| Box::new(Resp::throttle(&format!("user:{connection:06}"))) as Box<_>;
        // The pipelining of redis-benchmark, by which the goals were set.
        let throttle_one = |_| Box::new(Resp::throttle("user:000000")) as Box<_>;
        let mut contestants = vec![
            ("floor: parser, constant reply", Load::connect(&floor, "resp", at_a_time, throttle)),
            ("tollgate, one key", Load::connect(&one_key, "resp", at_a_time, throttle_one)),
            ("tollgate, a key for each", Load::connect(&many_keys, "resp", at_a_time, throttle)),
        ];
        if let Some(redis) = &redis {
            let ping = |_| Box::new(Resp::new(&["PING"], b'+')) as Box<_>;
            let increment = |at: usize| Box::new(Resp::new(&["INCR", &format!("user:{at:06}")], b':')) as Box<_>;
            contestants.push(("redis PING", Load::connect(redis, "", at_a_time, ping)));
            contestants.push(("redis INCR", Load::connect(redis, "", at_a_time, increment)));
        }
        if let Some(throttlecrab) = &throttlecrab {
            let throttle = |at: usize| {
                let key = format!("user:{at:06}");
                Box::new(Resp::new(&["THROTTLE", &key, "15", "1000000", "1"], b'*')) as Box<_>
            };
            contestants.push(("throttlecrab", Load::connect(throttlecrab, "", at_a_time, throttle)));
        }
        let what = format!("RESP, {at_a_time} at a time");
        let rounds = Rounds::run(&what, effort, contestants);
        rounds.print(&what);
        if at_a_time == 1 {
            let of_floor = rounds.of_cpu(TOLLGATE);
            print_goal(&format!("at most {MOST_CPU}x the floor's CPU"), of_floor, of_floor <= MOST_CPU);
        } else {
            let of_floor = rounds.of_rate(TOLLGATE);
            print_goal(&format!("at least {LEAST_RATE}x the floor's req/s"), of_floor, of_floor >= LEAST_RATE);
        }
    }
}
