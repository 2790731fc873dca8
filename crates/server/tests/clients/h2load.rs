use prost::Message;

use crate::messages::{descriptor, rate_limit_request};
use crate::program::{command, stdout_of};
use crate::test_service::TestService;

#[test]
#[ignore = "needs h2load"]
fn h2load_calls_all_succeed_and_are_counted() {
    let service =
        TestService::with_policy("version: 1\nrules:\n  - { name: per-ip, key: client_ip, limit: 1000000/day }\n");
    let message = rate_limit_request(&[descriptor(&[("remote_address", "203.0.113.9")])]).encode_to_vec();
    // A gRPC message is preceded by a compression flag (0) and its length.
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = [&[0], &length[..], &message].concat();
    let file = std::env::temp_dir().join(format!("tollgate-h2load-{}", std::process::id()));
    std::fs::write(&file, body).unwrap();
    let url = format!("http://{}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", service.grpc);
    let report = stdout_of(
        command("h2load")
            .args(["--requests", "2000", "--clients", "8", "--max-concurrent-streams", "16"])
            .args(["--header", "content-type: application/grpc", "--header", "te: trailers"])
            .arg("--data")
            .arg(&file)
            .arg(url),
    );
    let _ = std::fs::remove_file(&file);
    assert!(report.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{report}");
    assert_eq!(service.check(r#"{"ip":"203.0.113.9","cost":0}"#)["remaining"], 998_000);
}
