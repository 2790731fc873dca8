use crate::program::{command, port, printed};
use crate::running::Running;

#[test]
#[ignore = "needs redis-benchmark"]
fn every_command_of_a_load_is_counted() {
    // Its own limit has to be a rule's, so that somebody else can ask what remains.
    let service = Running::under("version: 1\nrules:\n  - { name: all, limit: 1000000/day }\n");
    let load = ["-p", &port(service.resp), "-n", "2000", "-c", "10", "-P", "16", "--csv"];
    let report = printed(command("redis-benchmark").args(load).args(["TOLL.CHECK", "ip", "203.0.113.9"]));
    assert!(report.contains("TOLL.CHECK ip 203.0.113.9"), "{report}");
    let left = service.check(r#"{"cost":0}"#)["remaining"].as_u64().unwrap();
    // It may send a few more than it was asked for, to fill its last pipeline.
    assert!((998_000 - 160..=998_000).contains(&left), "{left}");
    let report = printed(command("redis-benchmark").args(load).args(["CL.THROTTLE", "k", "1000000", "1", "60"]));
    assert!(report.contains("CL.THROTTLE k 1000000 1 60"), "{report}");
    let report = printed(command("redis-benchmark").args(load).args(["-t", "ping"]));
    assert!(report.contains("PING_MBULK"), "{report}");
}
