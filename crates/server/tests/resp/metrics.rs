use crate::client::request;
use crate::resp_client::RespClient;
use crate::test_service::TestService;

pub(crate) fn text(service: &TestService) -> String {
    request(service.admin, "GET", "/metrics", "").body
}

#[test]
fn decisions_are_counted_by_rule_and_outcome() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    for command in [
        "CL.THROTTLE k 0 1 60",
        "CL.THROTTLE k 0 1 60",
        "CL.THROTTLE k 0 1 60 2",
        "CL.THROTTLE k 0 1 60 0",
        "TOLL.CHECK ip 203.0.113.9 COST 60",
        "TOLL.CHECK ip 203.0.113.9",
        "TOLL.CHECK user 1",
    ] {
        client.call(command);
    }
    for undecided in ["CL.THROTTLE k 0 0 60", "TOLL.CHECK ip nowhere", "PING"] {
        client.call(undecided);
    }
    let metrics = text(&service);
    for (rule, outcome, count) in [
        ("*throttle", "allow", 1),
        ("*throttle", "reject", 2),
        ("*throttle", "peek", 1),
        ("per-ip", "allow", 1),
        ("per-ip", "reject", 1),
        ("", "allow", 1),
    ] {
        let line =
            format!("tollgate_decisions_total{{rule=\"{rule}\",outcome=\"{outcome}\",frontend=\"resp\"}} {count}");
        assert!(metrics.lines().any(|other| other == line), "no line {line} in\n{metrics}");
    }
    for line in [
        "tollgate_decision_duration_seconds_count{frontend=\"resp\"} 7",
        "tollgate_decision_duration_seconds_count{frontend=\"http\"} 0",
    ] {
        assert!(metrics.lines().any(|other| other == line), "no line {line} in\n{metrics}");
    }
    assert_eq!(metrics.matches("# TYPE tollgate_decision_duration_seconds ").count(), 1);
}
