//! The prefix of a value: its family, and the quota it was written under.

use tollgate_core::{BucketShape, CompiledQuota, TickSpan};
use tollgate_store::Limit;

const BUCKET: u8 = 1;
const QUEUE: u8 = 2;
const WINDOW: u8 = 3;
const COUNTER: u8 = 4;
const LOG: u8 = 5;
const LEASES: u8 = 6;
/// A bucket without reservations whose tokens take whole milliseconds. Most buckets are like this, and saving a byte or
/// two lets their values fit a smaller block of the server's memory.
const BUCKET_OF_MILLISECONDS: u8 = 7;
/// The same, in whole microseconds.
const BUCKET_OF_MICROSECONDS: u8 = 8;

/// Appends the prefix of the values that a limit's quota writes.
pub(super) fn push_prefix(bytes: &mut Vec<u8>, limit: &Limit) {
    let window_ms = limit.quota().period_ns() / 1_000_000;
    match limit.compiled() {
        CompiledQuota::Bucket(bucket) => push_bucket(bytes, &bucket.shape(), limit.quota().ahead_ns() / 1_000),
        CompiledQuota::FixedWindow(_) => {
            bytes.push(WINDOW);
            push_varint(bytes, window_ms);
        }
        CompiledQuota::SlidingCounter(_) => {
            bytes.push(COUNTER);
            push_varint(bytes, window_ms);
        }
        CompiledQuota::SlidingLog(_) => bytes.push(LOG),
        CompiledQuota::Concurrency(_) => bytes.push(LEASES),
    }
}

/// The decimal format of the states of windows of usual lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digits {
    /// The family and the length of a window: a unit, and the number of units. 0 if the format is not used.
    pub(super) code: u16,
    /// The number of digits of a window's number until the year 2100.
    pub(super) width: u8,
}

const UNITS_MS: [u64; 4] = [1_000, 60_000, 3_600_000, 86_400_000];
const YEAR_2100_MS: u64 = 4_102_444_800_000;

/// Returns the decimal format of a limit's quota; the default (none) unless a window is a small number of seconds,
/// minutes, hours or days.
pub(super) fn digits(limit: &Limit) -> Digits {
    let first = match limit.compiled() {
        CompiledQuota::FixedWindow(_) => 1,
        CompiledQuota::SlidingCounter(_) => 5,
        _ => return Digits::default(),
    };
    let window_ms = limit.quota().period_ns() / 1_000_000;
    let fits = |(_, unit): &(u64, u64)| window_ms.is_multiple_of(*unit) && window_ms / unit < 100;
    let digits = |(at, unit): (u64, u64)| Digits {
        code: ((first + at) * 100 + window_ms / unit) as u16,
        width: (YEAR_2100_MS / window_ms).ilog10() as u8 + 1,
    };
    (0..).zip(UNITS_MS).find(fits).map(digits).unwrap_or_default()
}

fn push_bucket(bytes: &mut Vec<u8>, shape: &BucketShape, ahead: u64) {
    let push_span = |bytes: &mut Vec<u8>, span: TickSpan| {
        push_varint(bytes, span.ticks);
        if shape.denominator > 1 {
            push_varint(bytes, u64::from(span.part));
        }
    };
    if !shape.queues && shape.denominator == 1 && ahead == 0 {
        let (tag, unit) = match shape.emission_interval.ticks % 1_000 {
            0 => (BUCKET_OF_MILLISECONDS, 1_000),
            _ => (BUCKET_OF_MICROSECONDS, 1),
        };
        bytes.push(tag);
        push_varint(bytes, shape.emission_interval.ticks / unit);
        push_varint(bytes, shape.limit);
        return;
    }
    bytes.push(if shape.queues { QUEUE } else { BUCKET });
    push_varint(bytes, shape.emission_interval.ticks);
    push_varint(bytes, u64::from(shape.denominator));
    if shape.denominator > 1 {
        push_varint(bytes, u64::from(shape.emission_interval.part));
    }
    // A queue's state can hold more tokens than requests may take, so that number is written.
    push_varint(bytes, if shape.queues { shape.tokens_held() } else { shape.limit });
    if shape.queues {
        push_span(bytes, shape.ceiling);
    } else {
        push_varint(bytes, ahead);
    }
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Queue, Quota};

    use super::*;
    use crate::store::limit_of;

    #[test]
    fn queue_prefix_is_compatible_with_versions_that_had_one_more_position() {
        let mut expected = vec![QUEUE];
        // One token takes 200 ms, 11 of them 2.2 s. Requests take 10 of them.
        [200_000, 1, 11, 2_200_000].into_iter().for_each(|number| push_varint(&mut expected, number));
        let quota = Quota::leaky_queue("5/s".parse().unwrap(), Queue { size: 10, max_wait: None }).unwrap();
        let mut prefix = Vec::new();
        push_prefix(&mut prefix, &limit_of(quota).unwrap());
        assert_eq!(prefix, expected);
    }
}
