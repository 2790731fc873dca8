//! The access token over gRPC.

use tollgate_server::{AccessToken, CallerAccess};
use tonic::Code;
use tonic::metadata::MetadataValue;

use crate::messages::{Answer, ask, descriptor};
use crate::running::Running;

const POLICY: &str = "version: 1
rules: [ { name: per-ip, key: client_ip, limit: 3/min } ]
";
const TOKEN: &str = "a-token-of-a-gateway";

#[test]
fn calls_need_the_access_token_and_health_checks_do_not() {
    let token = AccessToken::new(TOKEN).unwrap();
    let access = CallerAccess { token: Some(token.clone()), ..CallerAccess::default() };
    let running = Running::with(POLICY, |server| server.with_callers(access));
    let ask = ask(&[descriptor(&[("remote_address", "203.0.113.9")])]);
    let with = |bearer: Option<&str>| -> Result<Answer, (Code, String)> {
        let mut request = tonic::Request::new(ask.clone());
        if let Some(bearer) = bearer {
            request.metadata_mut().insert("authorization", MetadataValue::try_from(bearer).unwrap());
        }
        running.client.call_with("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", request)
    };
    let (code, message) = with(None).unwrap_err();
    assert_eq!(code, Code::Unauthenticated);
    assert!(message.contains("needs the access token"), "{message}");
    let (_, message) = with(Some("Bearer another-token-altogether")).unwrap_err();
    assert!(message.contains("not the access token"), "{message}");
    for wrong in ["Bearer another-token-altogether", TOKEN, "Bearer", "Basic a-token-of-a-gateway"] {
        assert_eq!(with(Some(wrong)).unwrap_err().0, Code::Unauthenticated, "{wrong}");
    }
    // None of these was charged: all three of the limit are left.
    for left in [2, 1, 0] {
        let answer = with(Some("Bearer a-token-of-a-gateway")).unwrap();
        assert_eq!(answer.statuses[0].limit_remaining, left);
    }
    let reflected: Result<Answer, _> =
        running.call("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", ask.clone());
    assert_eq!(reflected.unwrap_err().0, Code::Unauthenticated);
    let health: Result<(), _> = running.call("/grpc.health.v1.Health/Check", ());
    assert!(health.is_ok(), "{health:?}");
    assert!(token.replace(&AccessToken::new("the-next-token-of-a-gateway").unwrap()));
    assert_eq!(with(Some("Bearer a-token-of-a-gateway")).unwrap_err().0, Code::Unauthenticated);
}
