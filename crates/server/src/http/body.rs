use axum::body::{Body, Bytes, HttpBody};

use super::connection::Caller;
use super::problem::Problem;

/// Reads a whole body, which is neither too large nor too slow.
pub(super) async fn read(body: Body, max_bytes: usize, caller: Caller) -> Result<Bytes, Problem> {
    // Who announces too much is told before anything is read.
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(Problem::body_too_large(max_bytes));
    }
    match tokio::time::timeout(caller.body_at_most, axum::body::to_bytes(body, max_bytes)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_too_large(&error) => Err(Problem::body_too_large(max_bytes)),
        Ok(Err(error)) => Err(Problem::bad_body(&error.to_string())),
        Err(_) => Err(Problem::body_too_slow(caller.body_at_most)),
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}
