use std::fmt::Display;

use axum::body::{Bytes, HttpBody};

use super::connection::Caller;
use super::problem::Problem;
use crate::listen::{Reservation, Share};
use crate::whole_body::{BodyLimits, NoBody, WholeBody, read_whole};

/// A body of at most so many bytes is read without asking for room: every connection may hold it.
const FREE_BYTES: usize = 16 << 10;

/// A body that is read and understood takes its own length a few times.
const LENGTHS_HELD: usize = 3;

/// Reads a whole body, which is neither too large nor too slow, and so small that it needs no room.
pub(super) async fn read<B>(body: B, max_bytes: usize, caller: Caller) -> Result<WholeBody, Problem>
where
    B: HttpBody<Data = Bytes, Error: Display>,
{
    debug_assert!(max_bytes <= FREE_BYTES);
    let read = read_whole(body, limits(max_bytes, caller), async |_| Some(Reservation::default())).await;
    read.map_err(|error| problem(error, max_bytes, caller))
}

/// The same of one that may be large. Then it waits for room.
pub(super) async fn read_large<B>(
    body: B,
    max_bytes: usize,
    caller: Caller,
    share: &Share,
) -> Result<WholeBody, Problem>
where
    B: HttpBody<Data = Bytes, Error: Display>,
{
    let reserve = async |bytes| Some(share.reserve_request(bytes).await);
    let read = read_whole(body, limits(max_bytes, caller), reserve).await;
    read.map_err(|error| problem(error, max_bytes, caller))
}

fn limits(max_bytes: usize, caller: Caller) -> BodyLimits {
    BodyLimits {
        max_bytes,
        free_bytes: FREE_BYTES,
        lengths_held: LENGTHS_HELD,
        at_most: caller.body_timeout,
        length_by: |_| None,
    }
}

fn problem(error: NoBody, max_bytes: usize, caller: Caller) -> Problem {
    match error {
        NoBody::TooLarge => Problem::body_too_large(max_bytes),
        NoBody::LongerThanItSays => Problem::bad_body("it is longer than it says"),
        NoBody::NoRoom => Problem::no_room(),
        NoBody::TooSlow => Problem::body_too_slow(caller.body_timeout),
        NoBody::Broken(why) => Problem::bad_body(&why),
    }
}
