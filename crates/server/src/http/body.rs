use std::fmt::Display;
use std::pin::pin;

use axum::body::{Bytes, HttpBody};

use super::connection::Caller;
use super::problem::Problem;
use crate::whole_body::{NoBody, read_whole};
use crate::within::within;

/// Reads a whole body, which is neither too large nor too slow.
pub(super) async fn read<B>(body: B, max_bytes: usize, caller: Caller) -> Result<Bytes, Problem>
where
    B: HttpBody<Data = Bytes, Error: Display>,
{
    match within(caller.body_at_most, pin!(read_whole(body, max_bytes))).await {
        Some(Ok(bytes)) => Ok(bytes),
        Some(Err(NoBody::TooLarge)) => Err(Problem::body_too_large(max_bytes)),
        Some(Err(NoBody::Broken(why))) => Err(Problem::bad_body(&why)),
        None => Err(Problem::body_too_slow(caller.body_at_most)),
    }
}
