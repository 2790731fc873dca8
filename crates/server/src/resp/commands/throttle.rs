//! `CL.THROTTLE key max_burst count period [quantity]`, as redis-cell has it.

use std::time::Duration;

use tollgate::{ChargeVerdict, Decision, Quota, QuotaError, Rate, RateError};

use super::{Left, wrong_arity};
use crate::engine::Engine;
use crate::resp::parser::{Arguments, parse_integer, short_length_line};
use crate::resp::reply::Reply;
use crate::resp::session::Session;
use crate::throttle::{CallerQuota, NotThrottled};

const S_NS: u64 = 1_000_000_000;

/// A quota as a caller wrote it, and what it means: read and checked once, and not again for every command.
pub(in crate::resp) struct QuotaMemo {
    /// All that was sent behind the key up to the period; `None` if it was typed.
    written: Option<Box<[u8]>>,
    asked: CallerQuota,
}

/// The numbers of a command.
struct Numbers {
    max_burst: i64,
    count: i64,
    period_s: i64,
}

/// Answers it where the counters are in this process.
pub(super) fn throttle(
    engine: &Engine,
    session: &mut Session,
    arguments: Arguments<'_>,
    reply: &mut Reply<'_>,
) -> Left {
    if engine.waits_for_store() {
        return Left::Throttle;
    }
    match parse(session, arguments) {
        Ok((key, asked, quantity)) => {
            let Some(decision) = engine.throttle_now(key, asked, quantity) else { return Left::Throttle };
            session.throttled.add(quantity, &decision);
            tell(&decision, reply);
        }
        Err(error) => reply.error(error),
    }
    Left::Nothing
}

/// Answers commands that are the last one of the connection again, each for any key and a quantity of 1, until
/// answers take `most` bytes. Returns how much of the input they are: it ends where a command is another, has not come
/// whole, or has to be waited for.
///
/// Nearly all that a pipelining client sends is of this kind, and it takes half as long to recognise its bytes as to
/// parse them.
pub(in crate::resp) fn throttle_again(
    engine: &Engine,
    session: &mut Session,
    input: &[u8],
    out: &mut Vec<u8>,
    most: usize,
) -> usize {
    let Session { limits, last_quota, is_admitted, protocol, throttled, .. } = session;
    let Some(QuotaMemo { written: Some(written), asked }) = last_quota.as_mut().filter(|_| *is_admitted) else {
        return 0;
    };
    let most_key_bytes = limits.key_bytes.min(limits.argument_bytes);
    let mut answered = 0;
    while out.len() < most {
        let Some((key, length)) = same_but_for_key(&input[answered..], written) else { break };
        if key.len() > most_key_bytes || length > limits.frame_bytes {
            break;
        }
        let Some(decision) = engine.throttle_now(key, asked, 1) else { break };
        throttled.add(1, &decision);
        tell(&decision, &mut Reply::new(out, *protocol));
        answered += length;
    }
    answered
}

/// The key and the length of a command that is as it was `written` behind its key; `None` if it is another, or its key
/// has a hundred bytes or more.
#[inline]
fn same_but_for_key<'a>(input: &'a [u8], written: &[u8]) -> Option<(&'a [u8], usize)> {
    const BEFORE_KEY: &[u8] = b"*5\r\n$11\r\nCL.THROTTLE\r\n$";
    let key_line = input.strip_prefix(BEFORE_KEY)?;
    let (key_bytes, line_bytes) = short_length_line(key_line)?;
    let (key, behind) = key_line.get(line_bytes..)?.split_at_checked(usize::from(key_bytes))?;
    behind.starts_with(written).then_some((key, BEFORE_KEY.len() + line_bytes + key.len() + written.len()))
}

/// Answers it where they are shared.
pub(in crate::resp) async fn throttle_shared(
    engine: &Engine,
    session: &mut Session,
    arguments: Arguments<'_>,
    out: &mut Vec<u8>,
) {
    let mut reply = Reply::new(out, session.protocol);
    match parse(session, arguments) {
        Ok((key, asked, quantity)) => match engine.throttle(key, asked, quantity).await {
            Ok(decision) => tell(&decision, &mut reply),
            Err(NotThrottled::NoAnswer) => reply.error("ERR the store of the counters does not answer"),
            Err(NotThrottled::NotTaken) => reply.error("ERR the store of the counters does not take this limit"),
        },
        Err(error) => reply.error(error),
    }
}

fn parse<'a, 's>(
    session: &'s mut Session,
    arguments: Arguments<'a>,
) -> Result<(&'a [u8], &'s mut CallerQuota, u64), String> {
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
        let numbers = Numbers { max_burst, count, period_s: argument("period", 4)? };
        let asked = CallerQuota::new(numbers.quota()?);
        session.last_quota = Some(QuotaMemo { written: written.map(Box::from), asked });
    }
    let memo = session.last_quota.as_mut();
    memo.map(|memo| (key, &mut memo.asked, quantity)).ok_or_else(|| unreachable!("it was just read"))
}

fn integer(name: &str, argument: &[u8]) -> Result<i64, String> {
    parse_integer(argument).ok_or_else(|| format!("ERR {name} is not an integer or out of range"))
}

impl Numbers {
    fn quota(self) -> Result<Quota, String> {
        let at_least = |value: i64, least: u64, name: &str| {
            let value = u64::try_from(value).ok().filter(|value| *value >= least);
            value.ok_or_else(|| format!("ERR {name} must be at least {least}"))
        };
        let limit = at_least(self.max_burst, 0, "max_burst")? + 1;
        let count = at_least(self.count, 1, "count")?;
        let period = Duration::from_secs(at_least(self.period_s, 1, "period")?);
        let rate = Rate::new(count, period).and_then(|rate| rate.with_burst(limit));
        let quota = rate.map_err(QuotaError::Rate).and_then(Quota::token_bucket);
        // There are no receipts here, so nothing is settled and nothing owed.
        quota.and_then(|quota| quota.with_max_debt(0)).map_err(|error| format!("ERR {}", said(error)))
    }
}

/// In this command's own words, where the limit is no limit and the period no milliseconds.
fn said(error: QuotaError) -> String {
    match error {
        QuotaError::Rate(RateError::CountTooLarge) => "count must be at most 1000000000000 (10^12)".to_owned(),
        QuotaError::Rate(RateError::BurstTooLarge) => "max_burst must be less than 1000000000000 (10^12)".to_owned(),
        QuotaError::Rate(RateError::Period) => "period must be at most 36 years".to_owned(),
        other => other.to_string(),
    }
}

fn tell(decision: &Decision, reply: &mut Reply<'_>) {
    let (is_refused, retry_after_s) = match decision.verdict {
        ChargeVerdict::Allowed { .. } => (0, -1),
        ChargeVerdict::NoRoom => return reply.error("ERR no room to count another key"),
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

/// Rounds up: who comes back after that many seconds does not come too early.
fn seconds(ns: u64) -> i64 {
    saturated(ns.div_ceil(S_NS))
}

fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
