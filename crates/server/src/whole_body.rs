use std::fmt::Display;
use std::future::poll_fn;
use std::pin::pin;

use http_body::Body;
use hyper::body::Bytes;

/// Why a body cannot be had.
#[derive(Debug)]
pub(crate) enum NoBody {
    TooLarge,
    /// It broke off, for this reason.
    Broken(String),
}

/// Reads a body to its end, unless it is larger than `max_bytes`.
pub(crate) async fn read_whole<B>(body: B, max_bytes: usize) -> Result<Bytes, NoBody>
where
    B: Body<Data = Bytes, Error: Display>,
{
    // Who announces too much is told before anything is read.
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(NoBody::TooLarge);
    }
    let mut body = pin!(body);
    // Nearly every body comes in one piece, and that is not copied.
    let mut first = Bytes::new();
    let mut all = Vec::new();
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let frame = frame.map_err(|error| NoBody::Broken(error.to_string()))?;
        let Ok(piece) = frame.into_data() else { continue };
        if first.len().max(all.len()) + piece.len() > max_bytes {
            return Err(NoBody::TooLarge);
        }
        if first.is_empty() {
            first = piece;
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&piece);
    }
    Ok(if all.is_empty() { first } else { all.into() })
}
