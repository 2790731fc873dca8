use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tonic::server::UnaryService;
use tonic::{Request, Response, Status};

use super::call::Call;
use super::limits::CALL_WITHIN;
use super::override_limits::OverrideLimits;
use super::rls_messages::{RateLimitRequest, RateLimitResponse};
use super::status;
use crate::engine::Engine;
use crate::front_end::FrontEnd;

/// `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`
#[derive(Clone, Debug)]
pub(super) struct ShouldRateLimit {
    pub(super) engine: Arc<Engine>,
    pub(super) overrides: Arc<OverrideLimits>,
}

impl ShouldRateLimit {
    async fn answer(self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        let call = Call::read(&request, &self.engine, &self.overrides)?;
        let descriptors = call.descriptors();
        let asked = call.asked(&descriptors);
        // A shared store has its own deadline; this is for one that has none.
        let decided = tokio::time::timeout(CALL_WITHIN, self.engine.decide_together(FrontEnd::Grpc, &asked)).await;
        let together = decided.map_err(|_| Status::unavailable("the store does not answer"))?;
        status::response(&together, &request.descriptors)
    }
}

impl UnaryService<RateLimitRequest> for ShouldRateLimit {
    type Response = RateLimitResponse;
    type Future = Pin<Box<dyn Future<Output = Result<Response<RateLimitResponse>, Status>> + Send>>;

    fn call(&mut self, request: Request<RateLimitRequest>) -> Self::Future {
        let answer = self.clone().answer(request.into_inner());
        Box::pin(async move { answer.await.map(Response::new) })
    }
}
