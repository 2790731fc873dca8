//! The standard health service.

use http::uri::PathAndQuery;
use prost::Message;
use tollgate_server::Drained;
use tonic::Code;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;

use crate::running::Running;

const POLICY: &str = "version: 1
rules: [ { name: per-ip, key: client_ip, limit: 3/min } ]
";

#[derive(Clone, PartialEq, Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Health {
    #[prost(int32, tag = "1")]
    status: i32,
}

const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;

fn service(name: &str) -> Service {
    Service { name: name.to_owned() }
}

#[test]
fn it_says_that_it_serves() {
    let running = Running::under(POLICY);
    let check = |name: &str| -> Result<Health, _> { running.call("/grpc.health.v1.Health/Check", service(name)) };
    for name in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
        assert_eq!(check(name).unwrap().status, SERVING);
    }
    assert_eq!(check("other").unwrap_err().0, Code::NotFound);
}

#[test]
fn who_needs_no_token_may_send_only_a_little() {
    let running = Running::under(POLICY);
    for path in ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"] {
        let called: Result<Health, _> = running.call(path, service(&"x".repeat(2_000)));
        assert_eq!(called.unwrap_err().0, Code::OutOfRange, "{path}");
    }
}

#[test]
fn whoever_watches_is_told_the_end_and_does_not_hold_it_up() {
    let running = Running::under(POLICY);
    let mut client = Grpc::new(running.client.channel.clone());
    let runtime = std::sync::Arc::clone(&running.client.runtime);
    let mut watched = runtime.block_on(async {
        client.ready().await.unwrap();
        let path = PathAndQuery::from_static("/grpc.health.v1.Health/Watch");
        let codec = ProstCodec::<Service, Health>::default();
        client.server_streaming(tonic::Request::new(service("")), path, codec).await.unwrap().into_inner()
    });
    assert_eq!(runtime.block_on(watched.message()).unwrap().unwrap().status, SERVING);
    assert_eq!(running.drained(), Drained::Completely);
    assert_eq!(runtime.block_on(watched.message()).unwrap().unwrap().status, NOT_SERVING);
    assert_eq!(runtime.block_on(watched.message()).unwrap(), None);
}
