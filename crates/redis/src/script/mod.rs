//! The Lua script that executes a [`Call`](crate::call::Call) on a server, and its wire format.
//!
//! [`encode`] writes a call as the only argument of the script, [`decode`] reads the reply, and [`replay`] computes the
//! decisions from it. The server decides which requests pass and stores the states. What remains and when to retry is
//! computed here, by the functions of `tollgate-core`, from the states in the reply and the server's clock.
//!
//! # The argument
//!
//! Bytes in little-endian order. Numbers are doubles (8 bytes) unless stated otherwise, because the script computes in
//! doubles.
//!
//! | part | fields |
//! | --- | --- |
//! | call | now, or -1 for the server's clock, or the expiry by the server's clock, negated; the families used, a bit each, and whether there are operations other than decide, and refills, or the code of a plain call (1 byte); with refills, by how much the server's clock is ahead, at least and at most; operations |
//! | operation | its kind (1 byte), then the fields of that kind |
//! | decide | times (4), number of charges (2), whether two charges that are made share a key (1), whether the reply must contain the end of a refusal in any case (1); charges |
//! | charge | family (1), mode (1), key (4), compiled quota, cost |
//! | lease | a charge of 1 (its mode is ignored), the number of tokens wanted, the largest number outstanding, the length of a generation in ms, the number of settlements; for each the generation, spent, returned |
//! | refill | key (4), the least rate (2), number of spans (1); for each its begin and end, and the rate (2) |
//! | others | family (1), key (4), compiled quota, cost; the charge in the receipt |
//!
//! # The values
//!
//! A value begins with a prefix: a byte for the family and, where another quota could not read the state without it,
//! the quota it was written under, as varints (seven bits a byte, the lowest first). The script compares the prefix
//! with that of the call as a string, and parses it only if it differs. See [`prefix`] for its fields.
//!
//! | family | after the prefix |
//! | --- | --- |
//! | bucket, queue | the time at which it is full again: 7 bytes, and 3 for the fraction of a microsecond if the denominator is not 1 |
//! | fixed window | number of the window, used, and the debt if there is one: varints |
//! | sliding counter | number of the window, previous, current, and the debt if there is one: varints |
//! | log | newest (7 bytes), newest - oldest, used (varints), entries; if there is a debt, `used` ends with a group of 0, and the gap of the first entry is the debt |
//! | leases | last id (7 bytes), earliest end (7 bytes), for each holder last id - id, end - earliest end, permits (varints) |
//!
//! Redis stores a number of up to 19 digits without a string, in 16 bytes less. So windows and counters of usual
//! lengths with small enough counts are written as 19 decimal digits instead: a code for the length, the number of the
//! window, and the counts. Those with a debt are not.
//!
//! Versions of tollgate without debts read a key with a debt as fully used, and write it without the debt.
//!
//! A key expires when its state equals that of an unused key, rounded up to a millisecond.
//!
//! # Leased tokens
//!
//! Tokens that are leased are *outstanding* until they are settled, or until their generation has ended. They are
//! counted beside the state of their key, in a wrapper around the value:
//!
//! | field | |
//! | --- | --- |
//! | 9 | 1 byte |
//! | the expiry of the key in ms since 1970, 0, usage of the state and outstanding tokens together, 0 | varints; versions without leases read a fixed window from 1970 to the expiry, with this usage and no debt |
//! | length of a generation in ms, number of the newest generation + 1 | varints |
//! | tokens outstanding of the generation before, and of the newest one | varints |
//! | the value of the state | empty if the state equals that of an unused key |
//!
//! A key without outstanding tokens has no wrapper. With them:
//!
//! - A decision or a forced charge sees the state with the outstanding tokens charged on top, as far as they fit. They
//!   are subtracted again before the state is written. Refunds, credits and settlements of receipts correct charges that
//!   are in the state, and see the state alone.
//! - A lease of generation `g` ends with generation `g + 1`. Then its tokens are charged to the state, as of that end and
//!   before anything else happens to the key; those of two generations one after the other. This is computed when the key
//!   is read, and stored when it is written: also by a refusal.
//! - Tokens reported as spent are charged to the state when they are reported, and returned tokens are not. Settlements
//!   of other generations than the two stored ones do nothing.
//! - A reset removes the state and keeps the wrapper. Permits, whose holders know nothing of leases, replace both.
//! - The key expires when it would be as unused after all outstanding tokens were charged at the ends of their
//!   generations.
//! - A version without leases counts outstanding tokens as used. When it writes, it charges them and drops the wrapper,
//!   so that they refill while their holders still have them: at most the outstanding tokens pass in addition.
//!
//! # Regions
//!
//! A bucket that several regions divide refills at a rate that changes with the epochs, and differs from key to key. Its
//! value is that of a bucket under the limit's whole rate, in a wrapper: 10 (1 byte), the time at which it was written,
//! and the thousandths of a microsecond that were refilled beyond its last whole one (varints). When it is read, the time
//! since then refills it by the *schedule* of the call: a list of spans, each with a rate in thousandths of the whole
//! rate. Time that no span covers refills nothing. From then on it is an ordinary bucket until the end of the call. The
//! key expires when it would be as unused at the least rate.
//!
//! The times of a schedule are those of the instance. The client writes into the call by how much the server's clock is
//! ahead of them, as a lower and an upper bound: a span begins by the upper bound, and ends by the lower one. If the
//! bounds are not known yet, nothing is refilled. Calls without a schedule do the same: those of instances for which the
//! limit is not regional.
//!
//! # The reply
//!
//! One flat list of integers: the time, and for each operation in order: the number that passed and the state of each
//! charge's key before (decide), the amount charged (force, settle above the estimate), whether the lease was held
//! (renew), the number of tokens leased, their generation, the microseconds until they expire, the number outstanding
//! and the state of the key afterwards with these charged (lease), or nothing. An expired call does nothing, and its
//! reply is the time alone.

mod decode;
mod encode;
mod known_state;
mod prefix;
mod replay;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use decode::decode;
pub(crate) use encode::{Encoded, encode, stamp, stamp_ahead};
pub(crate) use known_state::{KnownState, known_states};
#[cfg(test)]
pub(crate) use replay::{KeyState, Replayed};
pub(crate) use replay::{ReplayedBatch, replay, replay_uncharged};

/// The source of the script: its files are joined in this order. A call of buckets alone ends in `call.lua`; each
/// family defines its functions only if the call needs them. `leases.lua` has the leases of permits, and
/// `token_leases.lua` those of tokens: the second part of a function that begins in `bucket_exact.lua` and ends in
/// `regions.lua`.
pub(crate) const SOURCE: &str = concat!(
    include_str!("lua/call.lua"),
    include_str!("lua/records.lua"),
    include_str!("lua/bucket_exact.lua"),
    include_str!("lua/token_leases.lua"),
    include_str!("lua/regions.lua"),
    include_str!("lua/bucket.lua"),
    include_str!("lua/window_values.lua"),
    include_str!("lua/fixed_window.lua"),
    include_str!("lua/sliding_counter.lua"),
    include_str!("lua/sliding_log.lua"),
    include_str!("lua/leases.lua"),
    include_str!("lua/carry_over.lua"),
    include_str!("lua/operations.lua"),
);
