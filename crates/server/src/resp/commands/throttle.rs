//! `CL.THROTTLE key max_burst count period [quantity]`, compatible with redis-cell.

use std::time::Duration;

use tollgate::quota::{ChargeVerdict, Decision, QuotaError, RateError};
use tollgate::{Quota, Rate};

use super::{Deferred, wrong_arity};
use crate::engine::Engine;
use crate::resp::parser::{RespArguments, parse_integer, short_length_line};
use crate::resp::reply::RespReply;
use crate::resp::session::Session;
use crate::throttle::{CachedQuota, NotThrottled};

const S_NS: u64 = 1_000_000_000;

/// A quota as sent and as parsed, so that it is not parsed again for every command.
pub(in crate::resp) struct QuotaMemo {
    /// The bytes after the key up to the period; `None` for an inline command.
    written: Option<Box<[u8]>>,
    quota: CachedQuota,
}

/// The numbers of a command.
struct ThrottleArguments {
    max_burst: i64,
    count: i64,
    period_s: i64,
}

/// Executes the command with a memory store.
pub(super) fn throttle(
    engine: &Engine,
    session: &mut Session,
    arguments: RespArguments<'_>,
    reply: &mut RespReply<'_>,
) -> Deferred {
    if engine.waits_for_store() {
        return Deferred::Throttle;
    }
    match parse(session, arguments) {
        Ok((key, quota, quantity)) => {
            let Some(decision) = engine.throttle_now(key, quota, quantity) else { return Deferred::Throttle };
            session.throttled.add(quantity, &decision);
            write_decision(&decision, reply);
        }
        Err(error) => reply.error(error),
    }
    Deferred::Nothing
}

/// Executes commands that repeat the last one of the connection, each with any key and a quantity of 1, until replies
/// take `max_bytes`. Returns the length of the processed input: it ends at a different or partial command, or one that
/// has to wait.
///
/// Nearly all input of a pipelining client has this form, and recognizing its bytes takes half as long as parsing
/// them.
pub(in crate::resp) fn throttle_repeated(
    engine: &Engine,
    session: &mut Session,
    input: &[u8],
    out: &mut Vec<u8>,
    max_bytes: usize,
) -> usize {
    let Session { limits, last_quota, is_authenticated, protocol, throttled, .. } = session;
    let Some(QuotaMemo { written: Some(written), quota }) = last_quota.as_mut().filter(|_| *is_authenticated) else {
        return 0;
    };
    let max_key_bytes = limits.key_bytes.min(limits.argument_bytes);
    let mut processed = 0;
    while out.len() < max_bytes {
        let Some((key, length)) = match_except_key(&input[processed..], written) else { break };
        if key.len() > max_key_bytes || length > limits.frame_bytes {
            break;
        }
        let Some(decision) = engine.throttle_now(key, quota, 1) else { break };
        throttled.add(1, &decision);
        write_decision(&decision, &mut RespReply::new(out, *protocol));
        processed += length;
    }
    processed
}

/// Returns the key and the length of a command that is `written` after its key; `None` if it differs, or its key has a
/// hundred bytes or more.
#[inline]
fn match_except_key<'a>(input: &'a [u8], written: &[u8]) -> Option<(&'a [u8], usize)> {
    const BEFORE_KEY: &[u8] = b"*5\r\n$11\r\nCL.THROTTLE\r\n$";
    let key_line = input.strip_prefix(BEFORE_KEY)?;
    let (key_bytes, line_bytes) = short_length_line(key_line)?;
    let (key, rest) = key_line.get(line_bytes..)?.split_at_checked(usize::from(key_bytes))?;
    rest.starts_with(written).then_some((key, BEFORE_KEY.len() + line_bytes + key.len() + written.len()))
}

/// Executes the command with a shared store.
pub(in crate::resp) async fn throttle_shared(
    engine: &Engine,
    session: &mut Session,
    arguments: RespArguments<'_>,
    out: &mut Vec<u8>,
) {
    let mut reply = RespReply::new(out, session.protocol);
    match parse(session, arguments) {
        Ok((key, quota, quantity)) => match engine.throttle(key, quota, quantity).await {
            Ok(decision) => write_decision(&decision, &mut reply),
            Err(NotThrottled::StoreUnavailable) => reply.error("ERR the counter store does not answer"),
            Err(NotThrottled::QuotaRejected) => reply.error("ERR the counter store does not accept this limit"),
        },
        Err(error) => reply.error(error),
    }
}

fn parse<'a, 's>(
    session: &'s mut Session,
    arguments: RespArguments<'a>,
) -> Result<(&'a [u8], &'s mut CachedQuota, u64), String> {
    if arguments.len() > 6 {
        return Err(wrong_arity("CL.THROTTLE"));
    }
    let key = arguments.get(1).unwrap_or_default();
    if key.len() > session.limits.key_bytes {
        return Err(format!("ERR key is longer than {} bytes", session.limits.key_bytes));
    }
    let quantity = match arguments.get(5) {
        Some(quantity) => integer("quantity", quantity)?,
        None => 1,
    };
    let quantity = u64::try_from(quantity).map_err(|_| "ERR quantity must be 0 or more".to_owned())?;
    let written = arguments.written_after(1, 4);
    let is_known = |memo: &QuotaMemo| memo.written.is_some() && memo.written.as_deref() == written;
    if !session.last_quota.as_ref().is_some_and(is_known) {
        let argument = |name, at| integer(name, arguments.get(at).unwrap_or_default());
        let (max_burst, count) = (argument("max_burst", 2)?, argument("count", 3)?);
        let numbers = ThrottleArguments { max_burst, count, period_s: argument("period", 4)? };
        let quota = CachedQuota::new(numbers.quota()?);
        session.last_quota = Some(QuotaMemo { written: written.map(Box::from), quota });
    }
    let memo = session.last_quota.as_mut();
    memo.map(|memo| (key, &mut memo.quota, quantity)).ok_or_else(|| unreachable!("it was just set"))
}

fn integer(name: &str, argument: &[u8]) -> Result<i64, String> {
    parse_integer(argument).ok_or_else(|| format!("ERR {name} is not an integer or out of range"))
}

impl ThrottleArguments {
    fn quota(self) -> Result<Quota, String> {
        let require_min = |value: i64, min: u64, name: &str| {
            let value = u64::try_from(value).ok().filter(|value| *value >= min);
            value.ok_or_else(|| format!("ERR {name} must be at least {min}"))
        };
        let limit = require_min(self.max_burst, 0, "max_burst")? + 1;
        let count = require_min(self.count, 1, "count")?;
        let period = Duration::from_secs(require_min(self.period_s, 1, "period")?);
        let rate = Rate::new(count, period).and_then(|rate| rate.with_burst(limit));
        let quota = rate.map_err(QuotaError::Rate).and_then(Quota::token_bucket);
        // There are no receipts here, so nothing is settled and there is no debt.
        quota.and_then(|quota| quota.with_max_debt(0)).map_err(|error| format!("ERR {}", quota_error_text(error)))
    }
}

/// Names the arguments of this command in the error.
fn quota_error_text(error: QuotaError) -> String {
    match error {
        QuotaError::Rate(RateError::CountTooLarge) => "count must be at most 1000000000000 (10^12)".to_owned(),
        QuotaError::Rate(RateError::BurstTooLarge) => "max_burst must be less than 1000000000000 (10^12)".to_owned(),
        QuotaError::Rate(RateError::Period) => "period must be at most 36 years".to_owned(),
        other => other.to_string(),
    }
}

fn write_decision(decision: &Decision, reply: &mut RespReply<'_>) {
    let (is_refused, retry_after_s) = match decision.verdict {
        ChargeVerdict::Allowed { .. } => (0, -1),
        ChargeVerdict::Unavailable => return reply.error("ERR the store is full"),
        ChargeVerdict::Refused { .. } | ChargeVerdict::Impossible => (1, decision.retry_after().map_or(-1, seconds)),
    };
    reply.five_integers([
        is_refused,
        saturated(decision.limit),
        saturated(decision.remaining),
        retry_after_s,
        seconds(decision.reset_after),
    ]);
}

/// Rounds up, so that a retry after that time is not too early.
fn seconds(ns: u64) -> i64 {
    saturated(ns.div_ceil(S_NS))
}

fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
