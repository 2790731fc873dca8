//! What all regions admit of the whole rate, with loans and with static shares, of the same requests in one run.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval};
use tollgate_store::{Limit, Quota};

use crate::effort::Effort;
use crate::goals::Goals;
use crate::instances::{Instance, REGIONS, Servers};

const EPOCH: Duration = Duration::from_secs(1);
const KEYS: usize = 10;
/// The limit of each key, and its burst: what it refills in a second.
const PER_SECOND: u64 = 50;
/// The requests for each key in a busy region.
const ASKED_PER_SECOND: u64 = 3 * PER_SECOND;
const TICK: Duration = Duration::from_millis(10);

/// Until bursts are used, and what is known of the demand has led to loans.
const WARM_UP: u32 = 4;
/// The time for which one region is busy before the next one.
const EPOCHS_IN_ONE_REGION: u32 = 6;

/// What was admitted of the whole rate: with loans, and with static shares.
type Admitted = [f64; 2];

pub(crate) async fn measure(effort: Effort, goals: &mut Goals) {
    let epochs = if effort == Effort::Quick { 4 } else { 12 };
    let turns = if effort == Effort::Quick { 3 } else { 6 };
    LocalSet::new()
        .run_until(async {
            let servers = Servers::start();
            let instances = servers.connect(EPOCH).await;
            println!("\n| of the whole rate of {KEYS} keys | with loans | static shares |");
            println!("| --- | ---: | ---: |");
            for region in [2, 0] {
                run(&instances, &[(region, WARM_UP)]).await;
                let admitted = run(&instances, &[(region, epochs)]).await;
                let (name, weight) = REGIONS[region];
                line(&format!("one busy region, {name} with {weight} % of the weight"), admitted);
                if region == 2 {
                    goal(goals, "one busy region with 20 % of the weight", 0.80, admitted);
                }
            }
            let moving: Vec<_> = (0..turns).map(|turn| (turn % REGIONS.len(), EPOCHS_IN_ONE_REGION)).collect();
            let admitted = run(&instances, &moving).await;
            line(&format!("demand that moves every {EPOCHS_IN_ONE_REGION} epochs"), admitted);
            goal(goals, "demand that moves every 6 epochs", 0.70, admitted);
        })
        .await;
}

fn line(what: &str, [lent, fixed]: Admitted) {
    println!("| {what} | {lent:.2} | {fixed:.2} |");
}

fn goal(goals: &mut Goals, what: &str, at_least: f64, [lent, fixed]: Admitted) {
    let measured = format!("{lent:.2}, static shares {fixed:.2}");
    goals.add(
        &format!("{what}: part of the whole rate"),
        &format!("at least {at_least:.2}"),
        &measured,
        lent >= at_least,
    );
}

/// Requests all keys in one region after the other, each for a number of epochs.
async fn run(instances: &[Instance], turns: &[(usize, u32)]) -> Admitted {
    let quota = Quota::token_bucket(format!("{PER_SECOND}/s burst {PER_SECOND}").parse().unwrap()).unwrap();
    let limits: Vec<[Limit; 2]> =
        instances.iter().map(|instance| [instance.lent(quota), instance.static_share(quota)]).collect();
    let admitted = Rc::new([Cell::new(0_u64), Cell::new(0)]);
    let begun = Instant::now();
    let mut ticking = interval(TICK);
    ticking.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for &(region, epochs) in turns {
        eprintln!("regions: {} is busy for {epochs} epochs", REGIONS[region].0);
        let turn = Instant::now();
        let mut asked = 0;
        while turn.elapsed() < EPOCH * epochs {
            ticking.tick().await;
            let due = ASKED_PER_SECOND * turn.elapsed().as_millis() as u64 / 1_000;
            for _ in asked..due {
                for (key, of) in (0..KEYS).flat_map(|key| [(key, 0), (key, 1)]) {
                    let (instance, limit) = (instances[region].clone(), limits[region][of].clone());
                    let admitted = Rc::clone(&admitted);
                    tokio::task::spawn_local(async move {
                        let is_admitted = instance.request(&limit, &format!("key-{key}"), 1).await;
                        admitted[of].set(admitted[of].get() + u64::from(is_admitted));
                    });
                }
            }
            asked = due;
        }
    }
    let whole = PER_SECOND as f64 * KEYS as f64 * begun.elapsed().as_secs_f64();
    [0, 1].map(|of: usize| admitted[of].get() as f64 / whole)
}
