use std::time::Duration;

use tollgate_core::{AlgorithmKind, Queue, Quota, QuotaError, Rate, RateError};

use super::RestoreError;
use super::decoder::Decoder;
use super::encoder::Encoder;

const TOKEN_BUCKET: u8 = 0;
const LEAKY_BUCKET: u8 = 1;
const LEAKY_QUEUE: u8 = 2;

const IMPOSSIBLE: RestoreError = RestoreError::Damaged("a quota in it cannot be");

/// Writes the numbers of a bucket quota.
pub(super) fn write(encoder: &mut Encoder<'_>, quota: &Quota) {
    encoder.byte(match quota.kind() {
        AlgorithmKind::LeakyBucket => LEAKY_BUCKET,
        AlgorithmKind::LeakyQueue => LEAKY_QUEUE,
        // Only buckets have tags in a store.
        _ => TOKEN_BUCKET,
    });
    encoder.number(quota.amount());
    encoder.number(quota.period_ns());
    encoder.number(quota.burst());
    encoder.number(quota.ahead_ns());
    encoder.number(quota.queue_size());
}

/// Reads a quota through the public constructors, so that no quota results that could not be written.
pub(super) fn read(decoder: &mut Decoder<'_>) -> Result<Quota, RestoreError> {
    let kind = decoder.byte()?;
    let (amount, period_ns, burst) = (decoder.number()?, decoder.number()?, decoder.number()?);
    let (ahead_ns, queue_size) = (decoder.number()?, decoder.number()?);
    let rate = Rate::new(amount, Duration::from_nanos(period_ns)).map_err(|_: RateError| IMPOSSIBLE)?;
    let ahead = Duration::from_nanos(ahead_ns);
    let bucket = |make: fn(Rate) -> Result<Quota, QuotaError>| {
        let plain = make(rate.with_burst(burst).map_err(QuotaError::Rate)?)?;
        if ahead_ns > 0 { plain.with_reservations(ahead) } else { Ok(plain) }
    };
    let quota = match kind {
        TOKEN_BUCKET => bucket(Quota::token_bucket),
        LEAKY_BUCKET => bucket(Quota::leaky_bucket),
        LEAKY_QUEUE => Quota::leaky_queue(rate, Queue { size: queue_size, max_wait: Some(ahead) }),
        _ => return Err(IMPOSSIBLE),
    };
    quota.map_err(|_| IMPOSSIBLE)
}
