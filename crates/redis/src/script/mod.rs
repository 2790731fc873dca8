//! The script that carries out a [`Call`](crate::call::Call) on a server, and its language.
//!
//! [`encode`] writes a call as the script's only argument, [`decode`] reads its
//! reply, and [`replay`] works out the decisions from it: the server decides
//! who passes and keeps the states, and what remains and when to come back is
//! computed here, by the functions of `tollgate-core`, from the states that it
//! saw and its clock.
//!
//! # The argument
//!
//! Bytes in little-endian order. Numbers are doubles (8 bytes) unless said
//! otherwise, because that is what the script computes in.
//!
//! | part | fields |
//! | --- | --- |
//! | call | now, or -1 for the server's clock, or the expiry by the server's clock, negated; families in use, a bit each, and whether there are lines that do not decide, or that it is plain (1 byte); lines |
//! | line | its kind (1 byte), then the fields of that kind |
//! | decide | times (4), how many charges (2), whether two that are made share a key (1), whether a refusal's end is asked for in any case (1); charges |
//! | charge | family (1), mode (1), key (4), compiled quota, cost |
//! | others | family (1), key (4), compiled quota, cost; what it was charged as |
//!
//! # The values
//!
//! A value begins with a prefix: a byte that says whose it is and, where
//! another quota could not read the state without it, the quota it was written
//! under, in varints (seven bits a byte, the lowest first). A caller compares
//! it with its own as a string, and only another one is taken apart. See
//! [`prefix`] for what is in it.
//!
//! | family | after the prefix |
//! | --- | --- |
//! | bucket, queue | when it is full again: 7 bytes, and 3 for its part of a microsecond if the denominator is not 1 |
//! | fixed window | number of the window, used, and if anything is owed, that: varints |
//! | sliding counter | number of the window, previous, current, and if anything is owed, that: varints |
//! | log | newest (7 bytes), newest - oldest, used (varints), entries; if anything is owed, `used` ends with a group of 0, and the gap of the first entry is what is owed |
//! | leases | last id (7 bytes), earliest end (7 bytes), for each holder last id - id, end - earliest end, permits (varints) |
//!
//! The server keeps a number of up to 19 digits without a string, in 16 bytes
//! less. So windows and counters of usual lengths with counts that are not too
//! large are written as 19 decimal digits instead: a code for the length, the
//! number of the window, and the counts. Those that owe are not.
//!
//! A program that knows no debt reads any of these as a key that is fully used,
//! and writes it without the debt.
//!
//! A key lives until it is as if untouched, rounded up to a millisecond.
//!
//! # The reply
//!
//! One flat list of integers: the time, and for each line in order: how many
//! passed and the view of each charge (decide), how much was charged (force,
//! settle above the estimate), whether the lease was there (renew), or nothing. An
//! expired call does nothing, and its reply is the time alone.

mod decode;
mod encode;
mod prefix;
mod replay;
mod standing;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use decode::decode;
pub(crate) use encode::{Encoded, encode, stamp};
#[cfg(test)]
pub(crate) use replay::{KeyState, Replayed};
pub(crate) use replay::{ReplayedBatch, replay, replay_unmade};
pub(crate) use standing::{Standing, standings};

/// The script's text: one script, so its files are parts of one program and come in this order. A call of buckets alone
/// ends in `plain.lua`; each family makes its functions only where a call needs them.
pub(crate) const SOURCE: &str = concat!(
    include_str!("lua/call.lua"),
    include_str!("lua/plain.lua"),
    include_str!("lua/records.lua"),
    include_str!("lua/bucket_exact.lua"),
    include_str!("lua/bucket.lua"),
    include_str!("lua/window_values.lua"),
    include_str!("lua/fixed_window.lua"),
    include_str!("lua/sliding_counter.lua"),
    include_str!("lua/sliding_log.lua"),
    include_str!("lua/leases.lua"),
    include_str!("lua/carry_over.lua"),
    include_str!("lua/lines.lua"),
);
