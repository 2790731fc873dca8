//! What an epoch costs at the servers and in an instance, with many active keys.

use std::time::{Duration, SystemTime};

use tokio::task::LocalSet;
use tokio::time::sleep;
use tollgate_store::{Limit, Quota};

use crate::effort::Effort;
use crate::instances::{Instance, REGIONS, Servers};
use crate::server_load::{ServerLoad, longest_script_us, record_slow_scripts};

/// A request of this cost in an epoch of at most 20 seconds is more than half of the limit's rate, so that all keys are
/// lent.
const LIMIT: &str = "100/min burst 200";
const COST: u64 = 20;

/// Instances store the demand at 0.65 of an epoch. Until then all requests are made, and after this part nothing is done
/// but the work of the epoch.
const REQUESTS_END: f64 = 0.62;
/// By then all regions have read the loans.
const WORK_ENDS: f64 = 1.05;
const REQUESTS_BEGIN: f64 = 0.08;

const AT_ONCE: usize = 256;

pub(crate) async fn measure(effort: Effort) {
    let (epoch, keys) = match effort {
        Effort::Quick => (Duration::from_secs(2), 5_000),
        Effort::Full => (Duration::from_secs(20), 100_000),
    };
    println!("\n| {keys} active keys, epoch of {epoch:?} | | |");
    println!("| --- | ---: | ---: |");
    let mut columns = Vec::new();
    for busy in [1, 3] {
        eprintln!("regions: an epoch with {keys} keys in {busy} of 3 regions");
        let measured = LocalSet::new().run_until(one(epoch, keys, busy)).await;
        columns.push((busy, measured));
    }
    let row = |what: &str, value: &dyn Fn(&Measured) -> String| {
        println!("| {what} | {} | {} |", value(&columns[0].1), value(&columns[1].1));
    };
    row("active in", &|measured| format!("{} of 3 regions", measured.busy));
    row("keys in reports", &|measured| measured.reported.to_string());
    row("keys lent or borrowed in a region", &|measured| measured.balances.to_string());
    for (server, at) in [("global server", 0), ("server of eu", 1)] {
        let row = |what: &str, value: &dyn Fn(&ServerLoad) -> String| {
            row(&format!("{server}: {what}"), &|measured| value(&measured.load[at]));
        };
        row("scripts", &|load| load.scripts.to_string());
        row("time of scripts, ms", &|load| format!("{:.1}", load.script_us as f64 / 1e3));
        row("received, KiB", &|load| (load.received / 1024).to_string());
        row("sent, KiB", &|load| (load.sent / 1024).to_string());
    }
    for (server, at) in [("global server", 0), ("server of eu", 1)] {
        row(&format!("{server}: longest script, ms"), &|measured| {
            format!("{:.1}", measured.longest_us[at] as f64 / 1e3)
        });
    }
    row("global server: peak memory, MiB", &|measured| format!("{:.1}", measured.peak_memory as f64 / 1048576.0));
    row("processor time of an instance, ms", &|measured| format!("{:.0}", measured.cpu.as_secs_f64() * 1e3));
    row("processor time of a request, us", &|measured| format!("{:.1}", measured.cpu_of_request.as_secs_f64() * 1e6));
}

struct Measured {
    busy: usize,
    reported: u64,
    balances: u64,
    /// Of the global server, and of the first region's.
    load: [ServerLoad; 2],
    longest_us: [u64; 2],
    peak_memory: u64,
    /// The time of one instance, on average.
    cpu: Duration,
    cpu_of_request: Duration,
}

async fn one(epoch: Duration, keys: usize, busy: usize) -> Measured {
    let servers = Servers::start();
    let instances = servers.connect(epoch).await;
    let quota = Quota::token_bucket(LIMIT.parse().unwrap()).unwrap();
    let limits: Vec<Limit> = instances.iter().map(|instance| instance.lent(quota)).collect();
    let observed = [&servers.global, &servers.regional[0]];
    let mut start = next_epoch(epoch, REQUESTS_BEGIN);
    for measured in [false, true] {
        sleep_until(start + epoch.mul_f64(REQUESTS_BEGIN)).await;
        let cpu = cpu_time();
        for (instance, limit) in instances.iter().zip(&limits).take(busy) {
            request_all(instance, limit, keys).await;
        }
        let cpu_of_request = (cpu_time() - cpu) / (keys * busy) as u32;
        assert!(since_1970() < start + epoch.mul_f64(REQUESTS_END), "the requests of an epoch took too long");
        sleep_until(start + epoch.mul_f64(REQUESTS_END)).await;
        observed.iter().for_each(|server| record_slow_scripts(server));
        let (before, cpu) = (observed.map(ServerLoad::of), cpu_time());
        sleep_until(start + epoch.mul_f64(WORK_ENDS)).await;
        if measured {
            let (after, cpu) = (observed.map(ServerLoad::of), cpu_time() - cpu);
            let status = instances[0].store.region_status().unwrap();
            assert_eq!(status.missed_reports, 0, "{status:?}");
            return Measured {
                busy,
                reported: instances.iter().map(|instance| instance.store.region_status().unwrap().reported_keys).sum(),
                balances: status.borrowing_keys + status.lending_keys,
                load: [0, 1].map(|at: usize| after[at].since(before[at])),
                longest_us: observed.map(longest_script_us),
                peak_memory: after[0].peak_memory,
                cpu: cpu / REGIONS.len() as u32,
                cpu_of_request,
            };
        }
        start += epoch;
    }
    unreachable!("the second epoch is measured")
}

/// Requests all keys once.
async fn request_all(instance: &Instance, limit: &Limit, keys: usize) {
    let tasks: Vec<_> = (0..AT_ONCE)
        .map(|first| {
            let (instance, limit) = (instance.clone(), limit.clone());
            tokio::task::spawn_local(async move {
                for key in (first..keys).step_by(AT_ONCE) {
                    instance.request(&limit, &format!("user-{key:08}"), COST).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

/// Returns the start of the next epoch of which a part is still to come.
fn next_epoch(epoch: Duration, part: f64) -> Duration {
    let epoch_ns = epoch.as_nanos() as u64;
    let now_ns = since_1970().as_nanos() as u64;
    let start_ns = now_ns / epoch_ns * epoch_ns;
    let is_past = (now_ns - start_ns) as f64 > epoch_ns as f64 * part;
    Duration::from_nanos(start_ns + if is_past { epoch_ns } else { 0 })
}

async fn sleep_until(since_1970_at: Duration) {
    sleep(since_1970_at.saturating_sub(since_1970())).await;
}

/// Returns the processor time of this thread, which runs all tasks.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}
