//! The standard health service.

use http::uri::PathAndQuery;
use prost::Message;
use tollgate_server::Drained;
use tonic::Code;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;

use crate::test_service::TestService;

const POLICY: &str = "version: 1
rules: [ { name: per-ip, key: client_ip, limit: 3/min } ]
";

#[derive(Clone, PartialEq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;

fn health_check(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[test]
fn health_check_reports_serving() {
    let running = TestService::with_policy(POLICY);
    let check = |name: &str| -> Result<HealthCheckResponse, _> {
        running.call("/grpc.health.v1.Health/Check", health_check(name))
    };
    for name in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
        assert_eq!(check(name).unwrap().status, SERVING);
    }
    assert_eq!(check("other").unwrap_err().0, Code::NotFound);
}

#[test]
fn unauthenticated_health_messages_are_limited_in_size() {
    let running = TestService::with_policy(POLICY);
    for path in ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"] {
        let called: Result<HealthCheckResponse, _> = running.call(path, health_check(&"x".repeat(2_000)));
        assert_eq!(called.unwrap_err().0, Code::OutOfRange, "{path}");
    }
}

#[test]
fn health_watches_report_shutdown_without_delaying_it() {
    let running = TestService::with_policy(POLICY);
    let mut client = Grpc::new(running.client.channel.clone());
    let runtime = std::sync::Arc::clone(&running.client.runtime);
    let mut watch = runtime.block_on(async {
        client.ready().await.unwrap();
        let path = PathAndQuery::from_static("/grpc.health.v1.Health/Watch");
        let codec = ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
        client.server_streaming(tonic::Request::new(health_check("")), path, codec).await.unwrap().into_inner()
    });
    assert_eq!(runtime.block_on(watch.message()).unwrap().unwrap().status, SERVING);
    assert_eq!(running.shut_down(), Drained::Completely);
    assert_eq!(runtime.block_on(watch.message()).unwrap().unwrap().status, NOT_SERVING);
    assert_eq!(runtime.block_on(watch.message()).unwrap(), None);
}
