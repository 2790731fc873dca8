use crate::program::{command, port, stdout_of};
use crate::test_service::TestService;

#[test]
#[ignore = "needs redis-benchmark"]
fn redis_benchmark_commands_are_all_counted() {
    // The limit is that of a rule, so that a check over HTTP can read what remains.
    let service = TestService::with_policy("version: 1\nrules:\n  - { name: all, limit: 1000000/day }\n");
    let load = ["-p", &port(service.resp), "-n", "2000", "-c", "10", "-P", "16", "--csv"];
    let report = stdout_of(command("redis-benchmark").args(load).args(["TOLL.CHECK", "ip", "203.0.113.9"]));
    assert!(report.contains("TOLL.CHECK ip 203.0.113.9"), "{report}");
    let remaining = service.check(r#"{"cost":0}"#)["remaining"].as_u64().unwrap();
    // redis-benchmark may send a few more commands than requested, to fill its last pipeline.
    assert!((998_000 - 160..=998_000).contains(&remaining), "{remaining}");
    let report = stdout_of(command("redis-benchmark").args(load).args(["CL.THROTTLE", "k", "1000000", "1", "60"]));
    assert!(report.contains("CL.THROTTLE k 1000000 1 60"), "{report}");
    let report = stdout_of(command("redis-benchmark").args(load).args(["-t", "ping"]));
    assert!(report.contains("PING_MBULK"), "{report}");
}
