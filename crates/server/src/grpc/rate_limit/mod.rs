//! `envoy.service.ratelimit.v3`: the messages, and a call as requests that are decided together.

pub(in crate::grpc) mod call;
pub(in crate::grpc) mod messages;
pub(in crate::grpc) mod override_limits;
pub(in crate::grpc) mod status;

use std::pin::pin;
use std::sync::Arc;

use tonic::Status;

use super::limits::CALL_WITHIN;
use crate::engine::Engine;
use crate::front_end::FrontEnd;
use crate::within::within;
use call::Call;
use messages::{RateLimitRequest, RateLimitResponse};
use override_limits::OverrideLimits;

/// `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`
#[derive(Clone, Debug)]
pub(super) struct ShouldRateLimit {
    pub(super) engine: Arc<Engine>,
    pub(super) overrides: Arc<OverrideLimits>,
}

impl ShouldRateLimit {
    pub(super) async fn answer(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
        let call = Call::read(request, &self.engine, &self.overrides)?;
        let descriptors = call.descriptors();
        let asked = call.asked(&descriptors);
        // A shared store has its own deadline; this is for one that has none.
        let deciding = pin!(self.engine.decide_together(FrontEnd::Grpc, &asked));
        let decided = within(CALL_WITHIN, deciding).await;
        let together = decided.ok_or_else(|| Status::unavailable("the store does not answer"))?;
        status::response(&together, &request.descriptors)
    }
}
