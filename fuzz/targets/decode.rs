//! Decodes quotas and steps from bytes. Any bytes decode to valid values.

use std::time::Duration;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use tollgate_core::{Queue, Quota, Rate};

use crate::model::pair::{KEYS, SCOPES, Step, Target};

/// Decodes a quota that a few requests exhaust, of any algorithm.
pub(crate) fn quota(bytes: &mut Unstructured<'_>) -> Result<Quota> {
    let kind = bytes.int_in_range(0..=7_u8)?;
    // Tokens of a few ticks, whole or fractional, only for buckets: a log of that many entries would dominate the run.
    let is_fast = kind <= 3 && bytes.ratio(1_u8, 4)?;
    let count = if is_fast { bytes.int_in_range(100_000..=1_000_000)? } else { bytes.int_in_range(1..=12)? };
    let rate = Rate::new(count, Duration::from_millis(bytes.int_in_range(1..=3)?)).unwrap();
    let burst = bytes.int_in_range(1..=8)?;
    let quota = match kind {
        0 | 1 => Quota::token_bucket(rate.with_burst(burst).unwrap()),
        2 => {
            let ahead_ns = bytes.int_in_range(1..=5_000_000)?;
            let bucket = Quota::leaky_bucket(rate.with_burst(burst).unwrap()).unwrap();
            bucket.with_reservations(Duration::from_nanos(ahead_ns))
        }
        3 => {
            let max_wait = bytes.ratio(1_u8, 2)?.then_some(Duration::from_millis(2));
            Quota::leaky_queue(rate, Queue { size: burst, max_wait })
        }
        4 => Quota::fixed_window(rate),
        5 => Quota::sliding_window_counter(rate),
        6 => Quota::sliding_window_log(rate),
        _ => Quota::concurrency(burst, bytes.ratio(1_u8, 2)?.then_some(rate.period())),
    };
    Ok(quota.unwrap())
}

pub(crate) fn cost(bytes: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match bytes.arbitrary::<u8>()? {
        255 => bytes.arbitrary()?,
        small => u64::from(small % 14),
    })
}

/// Decodes a duration, from less than a token to more than every period.
pub(crate) fn span_ns(bytes: &mut Unstructured<'_>) -> Result<u64> {
    let magnitude = bytes.int_in_range(0..=25_u32)?;
    bytes.int_in_range(0..=1 << magnitude)
}

pub(crate) fn target(bytes: &mut Unstructured<'_>) -> Result<Target> {
    Ok(Target { limit: bytes.int_in_range(0..=SCOPES * 2 - 1)?, key: bytes.int_in_range(0..=KEYS - 1)? })
}

pub(crate) fn charges(bytes: &mut Unstructured<'_>) -> Result<Vec<(Target, u64)>> {
    (0..bytes.int_in_range(1..=5)?).map(|_| Ok((target(bytes)?, cost(bytes)?))).collect()
}

#[allow(dead_code, reason = "not every target uses every step")]
pub(crate) fn step(bytes: &mut Unstructured<'_>) -> Result<Step> {
    Ok(match bytes.int_in_range(0..=15_u8)? {
        0 | 1 => Step::Forward(span_ns(bytes)?),
        2 => Step::Back(span_ns(bytes)?),
        3 => Step::Peek(target(bytes)?),
        4..=6 => Step::Check(target(bytes)?, cost(bytes)?),
        7 => Step::CheckWithReceipt(target(bytes)?, cost(bytes)?),
        8 => Step::Reserve(target(bytes)?, cost(bytes)?, span_ns(bytes)?),
        9 => Step::CheckAll(charges(bytes)?),
        10 => Step::CheckAllWithReceipts(charges(bytes)?),
        11 => Step::Refund(bytes.arbitrary::<u8>()?.into()),
        12 => Step::Settle(bytes.arbitrary::<u8>()?.into(), cost(bytes)?),
        13 => Step::Renew(bytes.arbitrary::<u8>()?.into()),
        14 => Step::Penalise(target(bytes)?, cost(bytes)?),
        _ => Step::Reset(target(bytes)?),
    })
}
