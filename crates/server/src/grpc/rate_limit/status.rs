//! A verdict, as a gateway reads it.

use tollgate::{Decision, Together, Verdict};
use tonic::Status;

use super::messages::{
    Code, DescriptorStatus, Duration, HeaderValue, RateLimit, RateLimitDescriptor, RateLimitOverride,
    RateLimitResponse, Unit,
};

const S_NS: u64 = 1_000_000_000;

/// The answer to a call. What is only the store's trouble is an error: the gateway knows what to do then.
pub(in crate::grpc) fn response(
    together: &Together,
    descriptors: &[RateLimitDescriptor],
) -> Result<RateLimitResponse, Status> {
    let overall = &together.overall;
    let code = code_of(overall).ok_or_else(|| Status::unavailable("the store cannot answer"))?;
    let mut response_headers_to_add = Vec::new();
    overall.fields(|field, value| {
        response_headers_to_add.push(HeaderValue { key: field.name().to_owned(), value: value.to_owned() });
    });
    let statuses = together.each.iter().zip(descriptors).map(|(verdict, descriptor)| status(verdict, descriptor.limit));
    Ok(RateLimitResponse { overall_code: code.into(), statuses: statuses.collect(), response_headers_to_add })
}

fn code_of(verdict: &Verdict) -> Option<Code> {
    match (verdict.is_allowed(), verdict.is_over_limit()) {
        (true, _) => Some(Code::Ok),
        (false, true) => Some(Code::OverLimit),
        (false, false) => None,
    }
}

fn status(verdict: &Verdict, brought: Option<RateLimitOverride>) -> DescriptorStatus {
    // One that the store could not answer for stands in the way as well as one that is over its limit.
    let code = code_of(verdict).unwrap_or(Code::OverLimit).into();
    if let (Some(decision), Some(limit)) = (verdict.instead(), brought) {
        let RateLimitOverride { requests_per_unit, unit } = limit;
        let current_limit = Some(RateLimit { requests_per_unit, unit, name: String::new() });
        let limit_remaining = saturated(decision.remaining).min(requests_per_unit);
        return DescriptorStatus { code, current_limit, limit_remaining, duration_until_reset: reset(decision) };
    }
    match verdict.deciding() {
        Some(state) => {
            let quota = verdict.quota(state);
            let current_limit = Some(RateLimit {
                requests_per_unit: saturated(quota.amount()),
                unit: Unit::lasting(quota.period_ns()).into(),
                name: verdict.limit_name(state).to_owned(),
            });
            let limit_remaining = saturated(state.decision.remaining);
            DescriptorStatus { code, current_limit, limit_remaining, duration_until_reset: reset(&state.decision) }
        }
        None => DescriptorStatus {
            code,
            // A rule that denies is a limit of 0 to a gateway, which knows no other.
            current_limit: verdict.rule().map(|rule| RateLimit {
                requests_per_unit: 0,
                unit: Unit::Unknown.into(),
                name: rule.to_owned(),
            }),
            limit_remaining: if verdict.is_unlimited() { u32::MAX } else { 0 },
            ..DescriptorStatus::default()
        },
    }
}

/// Rounded up: gateways read whole seconds.
fn reset(decision: &Decision) -> Option<Duration> {
    let seconds = i64::try_from(decision.reset_after.div_ceil(S_NS)).unwrap_or(i64::MAX);
    (decision.reset_after < u64::MAX).then_some(Duration { seconds })
}

fn saturated(amount: u64) -> u32 {
    u32::try_from(amount).unwrap_or(u32::MAX)
}
