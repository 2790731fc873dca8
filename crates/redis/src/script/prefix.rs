//! How a value begins: whose it is, and the quota it was written under.

use smallvec::SmallVec;
use tollgate_core::{BucketShape, CompiledQuota, Span};
use tollgate_store::Limit;

/// Short enough for most quotas to stay off the heap.
pub(super) type Prefix = SmallVec<[u8; 24]>;

const BUCKET: u8 = 1;
const QUEUE: u8 = 2;
const WINDOW: u8 = 3;
const COUNTER: u8 = 4;
const LOG: u8 = 5;
const LEASES: u8 = 6;
/// A bucket that promises nothing ahead, whose token takes whole milliseconds. Most are, and a
/// byte or two less lets their values fit a smaller block of the server's memory.
const BUCKET_OF_MILLISECONDS: u8 = 7;
/// The same, in whole microseconds.
const BUCKET_OF_MICROSECONDS: u8 = 8;

/// The prefix of values that this limit's quota writes.
pub(super) fn prefix(limit: &Limit) -> Prefix {
    let mut bytes = Prefix::new();
    let window_ms = limit.quota().period_ns() / 1_000_000;
    match limit.compiled() {
        CompiledQuota::Bucket(bucket) => push_bucket(&mut bytes, &bucket.shape(), limit.quota().ahead_ns() / 1_000),
        CompiledQuota::FixedWindow(_) => {
            bytes.push(WINDOW);
            push_varint(&mut bytes, window_ms);
        }
        CompiledQuota::SlidingCounter(_) => {
            bytes.push(COUNTER);
            push_varint(&mut bytes, window_ms);
        }
        CompiledQuota::SlidingLog(_) => bytes.push(LOG),
        CompiledQuota::Concurrency(_) => bytes.push(LEASES),
    }
    bytes
}

/// How the states of windows of a usual length are written in digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digits {
    /// Says whose it is and how long a window is: a unit, and how many of it. 0 for none.
    pub(super) code: u16,
    /// How many digits the number of a window takes until the year 2100.
    pub(super) width: u8,
}

const UNITS_MS: [u64; 4] = [1_000, 60_000, 3_600_000, 86_400_000];
const YEAR_2100_MS: u64 = 4_102_444_800_000;

/// How a limit's quota writes in digits; not at all if a window is no small number of seconds, minutes,
/// hours or days.
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

fn push_bucket(bytes: &mut Prefix, shape: &BucketShape, ahead: u64) {
    let push_span = |bytes: &mut Prefix, span: Span| {
        push_varint(bytes, span.ticks);
        if shape.denominator > 1 {
            push_varint(bytes, u64::from(span.part));
        }
    };
    if !shape.queues && shape.denominator == 1 && ahead == 0 {
        let (tag, unit) = match shape.token.ticks % 1_000 {
            0 => (BUCKET_OF_MILLISECONDS, 1_000),
            _ => (BUCKET_OF_MICROSECONDS, 1),
        };
        bytes.push(tag);
        push_varint(bytes, shape.token.ticks / unit);
        push_varint(bytes, shape.limit);
        return;
    }
    bytes.push(if shape.queues { QUEUE } else { BUCKET });
    push_varint(bytes, shape.token.ticks);
    push_varint(bytes, u64::from(shape.denominator));
    if shape.denominator > 1 {
        push_varint(bytes, u64::from(shape.token.part));
    }
    // A state can hold more than requests may take, and says so.
    push_varint(bytes, if shape.queues { shape.tokens_held() } else { shape.limit });
    if shape.queues {
        push_span(bytes, shape.ceiling);
    } else {
        push_varint(bytes, ahead);
    }
}

fn push_varint(bytes: &mut Prefix, mut value: u64) {
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
    fn queue_values_begin_as_those_of_programs_that_gave_one_place_more() {
        let mut expected = Prefix::new();
        expected.push(QUEUE);
        // One token takes 200 ms, 11 of them 2.2 s. Requests take 10 of them.
        [200_000, 1, 11, 2_200_000].into_iter().for_each(|number| push_varint(&mut expected, number));
        let quota = Quota::leaky_queue("5/s".parse().unwrap(), Queue { size: 10, max_wait: None }).unwrap();
        assert_eq!(prefix(&limit_of(quota).unwrap()), expected);
    }
}
