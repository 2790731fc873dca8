use prost::Message;

use crate::messages::{ask, descriptor};
use crate::program::{command, printed};
use crate::running::Running;

#[test]
#[ignore = "needs h2load"]
fn every_call_of_a_load_is_answered_and_counted() {
    let service = Running::under("version: 1\nrules:\n  - { name: per-ip, key: client_ip, limit: 1000000/day }\n");
    let message = ask(&[descriptor(&[("remote_address", "203.0.113.9")])]).encode_to_vec();
    // A message of gRPC is not compressed (0), and its length stands before it.
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = [&[0], &length[..], &message].concat();
    let file = std::env::temp_dir().join(format!("tollgate-h2load-{}", std::process::id()));
    std::fs::write(&file, body).unwrap();
    let url = format!("http://{}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", service.grpc);
    let report = printed(
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
