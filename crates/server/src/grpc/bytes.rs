//! A call without a connection, for the fuzz targets.

use std::sync::Arc;

use prost::Message;

use super::rate_limit;
use crate::engine::Engine;
use crate::grpc::rate_limit::messages::{RateLimitRequest, RateLimitResponse};
use crate::grpc::rate_limit::override_limits::OverrideLimits;

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// How many descriptors were asked about.
    pub descriptors: usize,
    /// How many are answered.
    pub statuses: usize,
    /// 1 to go on, 2 over the limit.
    pub overall_code: i32,
}

/// Reads a message, decides it, and reads what would be sent.
pub(crate) async fn answer_bytes(engine: &Arc<Engine>, message: &[u8]) -> Option<Answered> {
    let request = RateLimitRequest::decode(message).ok()?;
    let mut sent = Vec::new();
    rate_limit::answer(engine, &OverrideLimits::default(), &request, &mut sent).await.ok()?;
    let response = RateLimitResponse::decode(sent.as_slice()).ok()?;
    Some(Answered {
        descriptors: request.descriptors.len(),
        statuses: response.statuses.len(),
        overall_code: response.overall_code,
    })
}
