//! Decodes the reply of the script.

use smallvec::SmallVec;
use tollgate_core::{BucketState, CompiledQuota, CounterState, WindowState};

use crate::call::{
    Answer, Call, LeaseAnswer, LeaseRequest, ReportedState, ReportedStates, ScriptOp, ScriptReply, Target,
};
use crate::resp_value::Value;

/// A reply that does not match its call. The outcome of the call is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid reply of the script: {0}")]
pub(crate) struct ScriptReplyError(pub(crate) &'static str);

/// Decodes the reply of the script to `call`.
pub(crate) fn decode(call: &Call, value: Value) -> Result<ScriptReply, ScriptReplyError> {
    let Value::Array(Some(values)) = value else {
        return Err(ScriptReplyError("it is not a list"));
    };
    let mut numbers = Numbers(values.into_iter());
    let now = numbers.next()?;
    let answers = call.ops.iter().map(|op| answer(op, &mut numbers)).collect::<Result<_, _>>()?;
    if numbers.0.next().is_some() {
        return Err(ScriptReplyError("it is too long"));
    }
    Ok(ScriptReply { now, answers })
}

fn answer(op: &ScriptOp, numbers: &mut Numbers) -> Result<Answer, ScriptReplyError> {
    Ok(match op {
        ScriptOp::Decide { times, charges } => {
            let passed = u32::try_from(numbers.next()?).ok().filter(|passed| passed <= times);
            let passed = passed.ok_or(ScriptReplyError("more requests passed than were sent"))?;
            let mut states_before = ReportedStates::with_capacity(charges.len());
            for charge in &**charges {
                states_before.push(reported_state(&charge.target, numbers)?);
            }
            Answer::Decided { passed, states_before }
        }
        ScriptOp::Force { cost, .. } => Answer::Forced { unpaid: rest(*cost, numbers.next()?)? },
        ScriptOp::Refund { .. } => Answer::Refunded,
        ScriptOp::Credit { .. } => Answer::Credited,
        ScriptOp::Settle { charged, true_cost, .. } => match true_cost.checked_sub(charged.cost) {
            Some(more) if more > 0 => Answer::Settled { overrun: rest(more, numbers.next()?)? },
            _ => Answer::Settled { overrun: 0 },
        },
        ScriptOp::Renew { target, .. } => match target.limit.compiled() {
            CompiledQuota::Concurrency(_) => Answer::Renewed { held: numbers.next()? == 1 },
            _ => Answer::Renewed { held: false },
        },
        ScriptOp::Reset { .. } => Answer::Reset,
        ScriptOp::Refill { .. } => Answer::Refilled,
        ScriptOp::Lease(request) => Answer::Leased(Box::new(lease_answer(request, numbers)?)),
    })
}

#[inline(never)]
fn lease_answer(request: &LeaseRequest, numbers: &mut Numbers) -> Result<LeaseAnswer, ScriptReplyError> {
    if let CompiledQuota::Concurrency(_) = request.target.limit.compiled() {
        let state = ReportedState::Leases { used: 0, until: 0, last_id: 0 };
        return Ok(LeaseAnswer { granted: 0, generation: 0, expires_in_us: 0, outstanding: 0, state });
    }
    let (granted, generation) = (numbers.next()?, numbers.next()?);
    if granted > request.wanted {
        return Err(ScriptReplyError("more tokens were leased than wanted"));
    }
    let (expires_in_us, outstanding) = (numbers.next()?, numbers.next()?);
    let state = reported_state(&request.target, numbers)?;
    Ok(LeaseAnswer { granted, generation, expires_in_us, outstanding, state })
}

fn rest(requested: u64, charged: u64) -> Result<u64, ScriptReplyError> {
    requested.checked_sub(charged).ok_or(ScriptReplyError("more was charged than requested"))
}

// Inlined into decisions although a lease calls it too.
#[inline(always)]
fn reported_state(target: &Target, numbers: &mut Numbers) -> Result<ReportedState, ScriptReplyError> {
    let window = target.limit.quota().period_ns() / 1_000;
    Ok(match target.limit.compiled() {
        // If a token takes whole microseconds, states have no fraction.
        CompiledQuota::Bucket(bucket) if bucket.shape().denominator == 1 => {
            ReportedState::Bucket(BucketState { tat: numbers.next()?, part: 0 })
        }
        CompiledQuota::Bucket(_) => ReportedState::Bucket(BucketState {
            tat: numbers.next()?,
            part: u32::try_from(numbers.next()?).map_err(|_| ScriptReplyError("a part is too large"))?,
        }),
        CompiledQuota::FixedWindow(_) => {
            let (start, used, debt) = (numbers.next()?, numbers.next()?, numbers.next()?);
            ReportedState::Window(WindowState { start, window, used, debt })
        }
        CompiledQuota::SlidingCounter(_) => ReportedState::Counter(CounterState {
            start: numbers.next()?,
            window,
            previous: numbers.next()?,
            current: numbers.next()?,
            debt: numbers.next()?,
        }),
        CompiledQuota::SlidingLog(_) => {
            let (used, newest, debt) = (numbers.next()?, numbers.next()?, numbers.next()?);
            let count = numbers.next()?;
            let mut front = SmallVec::new();
            for _ in 0..count {
                front.push((numbers.next()?, numbers.next()?));
            }
            ReportedState::Log { used, newest, debt, front }
        }
        CompiledQuota::Concurrency(_) => {
            ReportedState::Leases { used: numbers.next()?, until: numbers.next()?, last_id: numbers.next()? }
        }
    })
}

struct Numbers(std::vec::IntoIter<Value>);

impl Numbers {
    fn next(&mut self) -> Result<u64, ScriptReplyError> {
        match self.0.next() {
            Some(Value::Integer(number)) => u64::try_from(number).map_err(|_| ScriptReplyError("a number is negative")),
            Some(_) => Err(ScriptReplyError("an element is not an integer")),
            None => Err(ScriptReplyError("it is too short")),
        }
    }
}
