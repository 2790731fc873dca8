//! `envoy.service.ratelimit.v3`: the messages, and calls as requests that are decided together.

pub(in crate::grpc) mod call;
pub(in crate::grpc) mod message_writer;
pub(in crate::grpc) mod messages;
pub(in crate::grpc) mod override_limits;
pub(in crate::grpc) mod status;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tonic::Status;

use super::limits::CALL_TIMEOUT;
use crate::engine::Engine;
use crate::front_end::FrontEnd;
use call::RateLimitCall;
use messages::RateLimitRequest;
use override_limits::OverrideLimits;

/// `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`: decides a call and appends the response.
pub(super) async fn should_rate_limit(
    engine: &Engine,
    overrides: &OverrideLimits,
    request: &RateLimitRequest,
    out: &mut Vec<u8>,
) -> Result<(), Status> {
    if engine.waits_for_store() {
        // A shared store has its own deadline; this is for one that has none.
        let decided = tokio::time::timeout(CALL_TIMEOUT, decide(engine, overrides, request, out));
        // Boxed: calls decided in memory would be moved with space for it.
        return Box::pin(decided).await.unwrap_or_else(|_| Err(unavailable()));
    }
    // A decision in memory is ready at the first poll. So it stays on the stack.
    match pin!(decide(engine, overrides, request, out)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(decided) => decided,
        Poll::Pending => Err(unavailable()),
    }
}

async fn decide(
    engine: &Engine,
    overrides: &OverrideLimits,
    request: &RateLimitRequest,
    out: &mut Vec<u8>,
) -> Result<(), Status> {
    let call = RateLimitCall::read(request, engine, overrides)?;
    let descriptors = call.descriptors();
    let together = engine.check_all(FrontEnd::Grpc, &call.joint_requests(&descriptors)).await;
    status::write(&together, &request.descriptors, out)
}

fn unavailable() -> Status {
    Status::unavailable("the store does not answer")
}
