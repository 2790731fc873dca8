//! The script's reply as answers.

use smallvec::SmallVec;
use tollgate_core::{BucketState, CompiledQuota, CounterState, WindowState};

use crate::call::{Answer, Call, Line, Reply, Target, View, Views};
use crate::resp_value::Value;

/// A reply that does not fit its call. What became of the call is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the script's reply makes no sense: {0}")]
pub(crate) struct ProtocolError(pub(crate) &'static str);

/// Reads what the script answered to `call`.
pub(crate) fn decode(call: &Call, value: Value) -> Result<Reply, ProtocolError> {
    let Value::Array(Some(values)) = value else {
        return Err(ProtocolError("it is no list"));
    };
    let mut numbers = Numbers(values.into_iter());
    let now = numbers.next()?;
    let answers = call.lines.iter().map(|line| answer(line, &mut numbers)).collect::<Result<_, _>>()?;
    if numbers.0.next().is_some() {
        return Err(ProtocolError("it is too long"));
    }
    Ok(Reply { now, answers })
}

fn answer(line: &Line, numbers: &mut Numbers) -> Result<Answer, ProtocolError> {
    Ok(match line {
        Line::Decide { times, charges } => {
            let passed = u32::try_from(numbers.next()?).ok().filter(|passed| passed <= times);
            let passed = passed.ok_or(ProtocolError("more passed than asked"))?;
            let mut views = Views::with_capacity(charges.len());
            for charge in &**charges {
                views.push(view(&charge.target, numbers)?);
            }
            Answer::Decided { passed, views }
        }
        Line::Force { cost, .. } => Answer::Forced { unpaid: rest(*cost, numbers.next()?)? },
        Line::GiveBack { .. } => Answer::GivenBack,
        Line::Credit { .. } => Answer::Credited,
        Line::Settle { charged, true_cost, .. } => match true_cost.checked_sub(charged.cost) {
            Some(more) if more > 0 => Answer::Settled { overrun: rest(more, numbers.next()?)? },
            _ => Answer::Settled { overrun: 0 },
        },
        Line::Renew { target, .. } => match target.limit.compiled() {
            CompiledQuota::Concurrency(_) => Answer::Renewed { held: numbers.next()? == 1 },
            _ => Answer::Renewed { held: false },
        },
        Line::Reset { .. } => Answer::Reset,
    })
}

fn rest(asked: u64, charged: u64) -> Result<u64, ProtocolError> {
    asked.checked_sub(charged).ok_or(ProtocolError("more was charged than asked"))
}

fn view(target: &Target, numbers: &mut Numbers) -> Result<View, ProtocolError> {
    let window = target.limit.quota().period_ns() / 1_000;
    Ok(match target.limit.compiled() {
        // Where a token takes whole microseconds, no state has a part.
        CompiledQuota::Bucket(bucket) if bucket.shape().denominator == 1 => {
            View::Bucket(BucketState { tat: numbers.next()?, part: 0 })
        }
        CompiledQuota::Bucket(_) => View::Bucket(BucketState {
            tat: numbers.next()?,
            part: u32::try_from(numbers.next()?).map_err(|_| ProtocolError("a part is too large"))?,
        }),
        CompiledQuota::FixedWindow(_) => {
            let (start, used, debt) = (numbers.next()?, numbers.next()?, numbers.next()?);
            View::Window(WindowState { start, window, used, debt })
        }
        CompiledQuota::SlidingCounter(_) => View::Counter(CounterState {
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
            View::Log { used, newest, debt, front }
        }
        CompiledQuota::Concurrency(_) => {
            View::Leases { used: numbers.next()?, until: numbers.next()?, last_id: numbers.next()? }
        }
    })
}

struct Numbers(std::vec::IntoIter<Value>);

impl Numbers {
    fn next(&mut self) -> Result<u64, ProtocolError> {
        match self.0.next() {
            Some(Value::Integer(number)) => u64::try_from(number).map_err(|_| ProtocolError("a number is negative")),
            Some(_) => Err(ProtocolError("something in it is no number")),
            None => Err(ProtocolError("it is too short")),
        }
    }
}
