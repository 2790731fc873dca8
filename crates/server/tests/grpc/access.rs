//! The access token over gRPC.

use tollgate_server::{AccessToken, CallerAccess};
use tonic::Code;
use tonic::metadata::MetadataValue;

use crate::messages::{RateLimitResponse, descriptor, rate_limit_request};
use crate::test_service::TestService;

const POLICY: &str = "version: 1
rules: [ { name: per-ip, key: client_ip, limit: 3/min } ]
";
const TOKEN: &str = "a-token-of-a-gateway";

#[test]
fn calls_need_the_access_token_and_health_checks_do_not() {
    let token = AccessToken::new(TOKEN).unwrap();
    let access = CallerAccess { token: Some(token.clone()), ..CallerAccess::default() };
    let running = TestService::with_server(POLICY, |server| server.with_callers(access));
    let request = rate_limit_request(&[descriptor(&[("remote_address", "203.0.113.9")])]);
    let call = |bearer: Option<&str>| -> Result<RateLimitResponse, (Code, String)> {
        let mut request = tonic::Request::new(request.clone());
        if let Some(bearer) = bearer {
            request.metadata_mut().insert("authorization", MetadataValue::try_from(bearer).unwrap());
        }
        running.client.call_with("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", request)
    };
    let (code, message) = call(None).unwrap_err();
    assert_eq!(code, Code::Unauthenticated);
    assert!(message.contains("the access token is required"), "{message}");
    let (_, message) = call(Some("Bearer another-token-altogether")).unwrap_err();
    assert!(message.contains("wrong access token"), "{message}");
    for wrong in ["Bearer another-token-altogether", TOKEN, "Bearer", "Basic a-token-of-a-gateway"] {
        assert_eq!(call(Some(wrong)).unwrap_err().0, Code::Unauthenticated, "{wrong}");
    }
    // Refused calls are not charged: all 3 hits remain.
    for left in [2, 1, 0] {
        let response = call(Some("Bearer a-token-of-a-gateway")).unwrap();
        assert_eq!(response.statuses[0].limit_remaining, left);
    }
    let reflected: Result<RateLimitResponse, _> =
        running.call("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", request.clone());
    assert_eq!(reflected.unwrap_err().0, Code::Unauthenticated);
    let health: Result<(), _> = running.call("/grpc.health.v1.Health/Check", ());
    assert!(health.is_ok(), "{health:?}");
    assert!(token.replace(&AccessToken::new("the-next-token-of-a-gateway").unwrap()));
    assert_eq!(call(Some("Bearer a-token-of-a-gateway")).unwrap_err().0, Code::Unauthenticated);
}
