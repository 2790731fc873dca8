//! More quotas than the store tells apart.

use crate::resp_client::{RespClient, frame, integers};
use crate::test_service::TestService;

const QUOTAS: i64 = 4500;

#[test]
fn thousands_of_quotas_are_all_exact() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    let command = |at: i64| frame(&["CL.THROTTLE", &format!("key-{at}"), &at.to_string(), "1", "60"]);
    for round in 1..=2 {
        for first in (1..QUOTAS).step_by(100) {
            client.send(&(first..first + 100).flat_map(command).collect::<Vec<u8>>());
            for at in first..first + 100 {
                assert_eq!(client.reply(), integers(&[0, at + 1, at + 1 - round, -1, 60 * round]), "{at}");
            }
        }
    }
    assert_eq!(service.check(r#"{"ip":"203.0.113.9"}"#)["remaining"], 59);
}
