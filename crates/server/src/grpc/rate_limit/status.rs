//! Verdicts as RLS responses.

use tollgate::Verdict;
use tollgate::limiter::JointVerdict;
use tollgate::quota::Decision;
use tonic::Status;

use super::message_writer::MessageWriter;
use super::messages::{Code, RateLimitDescriptor, RateLimitOverride, RateLimitUnit};

const S_NS: u64 = 1_000_000_000;

/// Appends the `RateLimitResponse` of a call. A store failure is an error: the gateway is configured for it.
pub(in crate::grpc) fn write(
    together: &JointVerdict,
    descriptors: &[RateLimitDescriptor],
    out: &mut Vec<u8>,
) -> Result<(), Status> {
    let overall = &together.overall;
    let code = code_of(overall).ok_or_else(|| Status::unavailable("the store cannot answer"))?;
    let mut response = MessageWriter::new(out);
    response.number(1, code as u64);
    for (verdict, descriptor) in together.each.iter().zip(descriptors) {
        response.message(2, |status| write_status(verdict, descriptor.limit, status));
    }
    overall.fields(|field, value| {
        response.message(3, |header| {
            header.text(1, field.name());
            header.text(2, value);
        });
    });
    Ok(())
}

fn code_of(verdict: &Verdict) -> Option<Code> {
    match (verdict.is_allowed(), verdict.is_over_limit()) {
        (true, _) => Some(Code::Ok),
        (false, true) => Some(Code::OverLimit),
        (false, false) => None,
    }
}

/// A `DescriptorStatus`.
fn write_status(verdict: &Verdict, override_limit: Option<RateLimitOverride>, status: &mut MessageWriter<'_>) {
    // A descriptor that the store could not decide blocks the call like one over its limit.
    status.number(1, code_of(verdict).unwrap_or(Code::OverLimit) as u64);
    if let (Some(decision), Some(limit)) = (verdict.caller_decision(), override_limit) {
        let RateLimitOverride { requests_per_unit, unit } = limit;
        write_limit(status, requests_per_unit, u64::try_from(unit).unwrap_or(0), "");
        return write_limit_state(status, decision, requests_per_unit);
    }
    match verdict.deciding() {
        Some(state) => {
            let quota = verdict.quota(state);
            let unit = RateLimitUnit::lasting(quota.period_ns()) as u64;
            write_limit(status, saturated(quota.amount()), unit, verdict.limit_name(state));
            write_limit_state(status, &state.decision, u32::MAX);
        }
        None => {
            // A rule that denies is sent as a limit of 0, because RLS has no other form.
            if let Some(rule) = verdict.rule() {
                write_limit(status, 0, RateLimitUnit::Unknown as u64, rule);
            }
            status.number(3, if verdict.is_unlimited() { u32::MAX } else { 0 });
        }
    }
}

fn write_limit(status: &mut MessageWriter<'_>, requests_per_unit: u32, unit: u64, name: &str) {
    status.message(2, |limit| {
        limit.number(1, requests_per_unit);
        limit.number(2, unit);
        limit.text(3, name);
    });
}

/// Writes what remains, at most `most`, and the time until reset, if known: in whole seconds, rounded up, because
/// gateways read no more.
fn write_limit_state(status: &mut MessageWriter<'_>, decision: &Decision, most: u32) {
    status.number(3, saturated(decision.remaining).min(most));
    if decision.reset_after < u64::MAX {
        status.message(4, |reset| reset.number(1, decision.reset_after.div_ceil(S_NS)));
    }
}

fn saturated(amount: u64) -> u32 {
    u32::try_from(amount).unwrap_or(u32::MAX)
}
