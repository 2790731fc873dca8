//! `envoy.service.ratelimit.v3`: the messages, and a call as requests that are decided together.

pub(in crate::grpc) mod call;
pub(in crate::grpc) mod message_writer;
pub(in crate::grpc) mod messages;
pub(in crate::grpc) mod override_limits;
pub(in crate::grpc) mod status;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tonic::Status;

use super::limits::CALL_WITHIN;
use crate::engine::Engine;
use crate::front_end::FrontEnd;
use call::Call;
use messages::RateLimitRequest;
use override_limits::OverrideLimits;

/// `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`: decides a call, and writes the answer behind what
/// is there.
pub(super) async fn answer(
    engine: &Engine,
    overrides: &OverrideLimits,
    request: &RateLimitRequest,
    out: &mut Vec<u8>,
) -> Result<(), Status> {
    if engine.waits_for_store() {
        // A shared store has its own deadline; this is for one that has none.
        let decided = tokio::time::timeout(CALL_WITHIN, decide(engine, overrides, request, out));
        // On the heap: calls that are decided in memory would be moved about with the room for it.
        return Box::pin(decided).await.unwrap_or_else(|_| Err(no_answer()));
    }
    // In memory a decision is there when it is first asked for. So it stays here, and no call carries it about.
    match pin!(decide(engine, overrides, request, out)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(decided) => decided,
        Poll::Pending => Err(no_answer()),
    }
}

async fn decide(
    engine: &Engine,
    overrides: &OverrideLimits,
    request: &RateLimitRequest,
    out: &mut Vec<u8>,
) -> Result<(), Status> {
    let call = Call::read(request, engine, overrides)?;
    let descriptors = call.descriptors();
    let together = engine.decide_together(FrontEnd::Grpc, &call.asked(&descriptors)).await;
    status::write(&together, &request.descriptors, out)
}

fn no_answer() -> Status {
    Status::unavailable("the store does not answer")
}
