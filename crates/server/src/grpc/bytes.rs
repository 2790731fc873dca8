//! RLS calls without a connection, for the fuzz targets.

use std::sync::Arc;

use prost::Message;

use super::rate_limit;
use crate::engine::Engine;
use crate::grpc::rate_limit::messages::{RateLimitRequest, RateLimitResponse};
use crate::grpc::rate_limit::override_limits::OverrideLimits;

/// A summary of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RlsOutcome {
    /// The number of descriptors in the call.
    pub descriptors: usize,
    /// The number of statuses in the response.
    pub statuses: usize,
    /// 1 is OK, 2 is OVER_LIMIT.
    pub overall_code: i32,
}

/// Decodes a message, decides it, and decodes the response.
pub(crate) async fn rls_outcome(engine: &Arc<Engine>, message: &[u8]) -> Option<RlsOutcome> {
    let request = RateLimitRequest::decode(message).ok()?;
    let mut sent = Vec::new();
    rate_limit::should_rate_limit(engine, &OverrideLimits::default(), &request, &mut sent).await.ok()?;
    let response = RateLimitResponse::decode(sent.as_slice()).ok()?;
    Some(RlsOutcome {
        descriptors: request.descriptors.len(),
        statuses: response.statuses.len(),
        overall_code: response.overall_code,
    })
}
