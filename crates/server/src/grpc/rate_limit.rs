use std::pin::pin;
use std::sync::Arc;

use tonic::Status;

use super::call::Call;
use super::limits::CALL_WITHIN;
use super::override_limits::OverrideLimits;
use super::rls_messages::{RateLimitRequest, RateLimitResponse};
use super::status;
use crate::engine::Engine;
use crate::front_end::FrontEnd;
use crate::within::within;

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
