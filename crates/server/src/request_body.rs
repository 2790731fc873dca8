use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::Body;
use hyper::body::Bytes;
use tokio::time;

use crate::listen::Reservation;

/// Limits on the size and duration of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    pub(crate) max_bytes: usize,
    /// Bodies up to this size need no memory reservation.
    pub(crate) unreserved_bytes: usize,
    /// The memory used while a body is read and parsed, as a multiple of its length.
    pub(crate) memory_factor: usize,
    pub(crate) timeout: Duration,
    /// Returns the length from the first bytes, if they announce it.
    pub(crate) announced_length: fn(&[u8]) -> Option<usize>,
}

/// Why a body was not read.
#[derive(Debug)]
pub(crate) enum BodyError {
    TooLarge,
    /// The body is longer than its prefix announces.
    LengthExceeded,
    /// No memory could be reserved.
    Unavailable,
    /// The body did not arrive in time.
    TooSlow,
    /// The transfer failed.
    Broken(String),
}

/// A complete body, with its memory reservation if it is large.
#[derive(Debug)]
pub(crate) struct CompleteBody {
    bytes: Bytes,
    reserved: Option<Reservation>,
}

impl Deref for CompleteBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl CompleteBody {
    /// Returns whether the body needed a reservation.
    pub(crate) fn is_large(&self) -> bool {
        self.reserved.is_some()
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

/// Reads a body to its end, unless it is too large or too slow.
///
/// For a large body, `reserve` waits for memory before the rest is read, or returns `None`. That wait is not the
/// client's fault, so the timeout starts again after it.
pub(crate) async fn collect_body<B, F>(
    body: B,
    limits: BodyLimits,
    reserve: impl FnOnce(usize) -> F,
) -> Result<CompleteBody, BodyError>
where
    B: Body<Data = Bytes, Error: Display>,
    F: Future<Output = Option<Reservation>>,
{
    let announced = body.size_hint();
    // Rejected before anything is read.
    if announced.lower() > limits.max_bytes as u64 {
        return Err(BodyError::TooLarge);
    }
    let announced = announced.upper().and_then(|bytes| usize::try_from(bytes).ok());
    let mut body = pin!(body);
    let mut collected = Collected { first: Bytes::new(), all: Vec::new(), max_bytes: limits.max_bytes };
    let read = poll_fn(|context| Poll::Ready(collected.poll_read(body.as_mut(), context, limits.unreserved())));
    match read.await {
        // Nearly every body has already arrived, and needs neither a timer nor a reservation.
        Poll::Ready(Ok(true)) => Ok(CompleteBody { bytes: collected.into_bytes(), reserved: None }),
        Poll::Ready(Err(error)) => Err(error),
        // Boxed: the future is large, and all others would be moved with space for it.
        _ => Box::pin(read_rest(body, collected, announced, limits, reserve)).await,
    }
}

/// Reads the rest of a body that has not arrived at once, or is large.
async fn read_rest<B, F>(
    mut body: Pin<&mut B>,
    mut collected: Collected,
    announced: Option<usize>,
    limits: BodyLimits,
    reserve: impl FnOnce(usize) -> F,
) -> Result<CompleteBody, BodyError>
where
    B: Body<Data = Bytes, Error: Display>,
    F: Future<Output = Option<Reservation>>,
{
    let BodyLimits { max_bytes, timeout, .. } = limits;
    let read = poll_fn(|context| collected.poll_read(body.as_mut(), context, limits.unreserved()));
    if time::timeout(timeout, read).await.map_err(|_| BodyError::TooSlow)?? {
        return Ok(CompleteBody { bytes: collected.into_bytes(), reserved: None });
    }
    collected.copy_out_of_buffer();
    let expected = announced.or_else(|| (limits.announced_length)(&collected.all)).unwrap_or(max_bytes).min(max_bytes);
    // Only the announced length is reserved, so no more is stored.
    let too_long = if expected < max_bytes { BodyError::LengthExceeded } else { BodyError::TooLarge };
    collected.max_bytes = expected;
    if collected.len() > expected {
        return Err(too_long);
    }
    let reserved = reserve(limits.memory_factor * expected).await.ok_or(BodyError::Unavailable)?;
    collected.all.reserve_exact(expected.saturating_sub(collected.all.len()));
    let read = poll_fn(|context| collected.poll_read(body.as_mut(), context, max_bytes));
    match time::timeout(timeout, read).await.map_err(|_| BodyError::TooSlow)? {
        Ok(_) => Ok(CompleteBody { bytes: collected.into_bytes(), reserved: Some(reserved) }),
        Err(BodyError::TooLarge) => Err(too_long),
        Err(error) => Err(error),
    }
}

impl BodyLimits {
    /// Returns how many bytes are read without a reservation.
    fn unreserved(&self) -> usize {
        self.unreserved_bytes.min(self.max_bytes)
    }
}

/// The part of a body that was read.
struct Collected {
    /// Nearly every body arrives in one piece, which is not copied.
    first: Bytes,
    all: Vec<u8>,
    max_bytes: usize,
}

impl Collected {
    /// Reads until the body ends or has more than `until_bytes` bytes. Returns whether it has ended.
    fn poll_read<B>(
        &mut self,
        mut body: Pin<&mut B>,
        context: &mut Context<'_>,
        until_bytes: usize,
    ) -> Poll<Result<bool, BodyError>>
    where
        B: Body<Data = Bytes, Error: Display>,
    {
        while self.len() <= until_bytes {
            match body.as_mut().poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(piece) = frame.into_data() {
                        self.add(piece)?;
                    }
                    // Nearly every body ends with its first piece; another poll would be measurable.
                    if body.is_end_stream() {
                        return Poll::Ready(Ok(true));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(BodyError::Broken(error.to_string()))),
                Poll::Ready(None) => return Poll::Ready(Ok(true)),
                Poll::Pending => {
                    self.copy_out_of_buffer();
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(false))
    }

    fn add(&mut self, piece: Bytes) -> Result<(), BodyError> {
        if self.len() + piece.len() > self.max_bytes {
            return Err(BodyError::TooLarge);
        }
        if self.len() == 0 {
            self.first = piece;
        } else {
            self.copy_out_of_buffer();
            self.all.extend_from_slice(&piece);
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }

    /// Copies the first piece: it is part of the connection's buffer, and a few bytes would keep all of it alive.
    fn copy_out_of_buffer(&mut self) {
        if !self.first.is_empty() {
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
        }
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use http_body::{Frame, SizeHint};

    use super::*;

    /// A body of pieces with these lengths. If `stays_open`, it does not end after them.
    struct Pieces {
        pieces: VecDeque<usize>,
        stays_open: bool,
        announced: Option<u64>,
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.pieces.pop_front() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(vec![b'x'; bytes].into())))),
                None if self.stays_open => Poll::Pending,
                None => Poll::Ready(None),
            }
        }

        fn size_hint(&self) -> SizeHint {
            self.announced.map_or_else(SizeHint::default, SizeHint::with_exact)
        }
    }

    fn pieces(pieces: &[usize]) -> Pieces {
        Pieces { pieces: pieces.iter().copied().collect(), stays_open: false, announced: None }
    }

    const UNRESERVED_BYTES: usize = 16 << 10;

    /// Reads a body, and returns its length and the bytes that it reserved.
    async fn read(body: Pieces, max_bytes: usize) -> (Result<usize, BodyError>, Option<usize>) {
        read_announcing(body, max_bytes, |_| None).await
    }

    /// The same for a body whose first bytes may announce its length.
    async fn read_announcing(
        body: Pieces,
        max_bytes: usize,
        announced_length: fn(&[u8]) -> Option<usize>,
    ) -> (Result<usize, BodyError>, Option<usize>) {
        let mut requested = None;
        let reserve = |bytes| {
            requested = Some(bytes);
            async { Some(Reservation::default()) }
        };
        let limits = BodyLimits {
            max_bytes,
            unreserved_bytes: UNRESERVED_BYTES,
            memory_factor: 3,
            timeout: Duration::from_secs(1),
            announced_length,
        };
        let read = collect_body(body, limits, reserve).await.map(|body| body.len());
        (read, requested)
    }

    #[tokio::test(start_paused = true)]
    async fn small_bodies_need_no_reservation() {
        for body in [pieces(&[]), pieces(&[9]), pieces(&[UNRESERVED_BYTES]), pieces(&[1; 1_000])] {
            let expected = body.pieces.iter().sum::<usize>();
            assert!(matches!(read(body, 1 << 20).await, (Ok(length), None) if length == expected));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_reserve_their_announced_or_maximum_length() {
        let body = pieces(&[UNRESERVED_BYTES, 1]);
        assert!(matches!(read(body, 20_000).await, (Ok(_), Some(60_000))));
        let body = Pieces { announced: Some(17_000), ..pieces(&[10_000, 7_000]) };
        assert!(matches!(read(body, 20_000).await, (Ok(17_000), Some(51_000))));
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_reserve_no_more_than_their_announced_length() {
        let announce = |_: &[u8]| Some(17_000);
        let exact = read_announcing(pieces(&[16_500, 500]), 20_000, announce).await;
        assert!(matches!(exact, (Ok(17_000), Some(51_000))), "{exact:?}");
        let longer = read_announcing(pieces(&[16_500, 501]), 20_000, announce).await;
        assert!(matches!(longer, (Err(BodyError::LengthExceeded), Some(51_000))), "{longer:?}");
        // A body that is already too long reserves nothing.
        let far_longer = read_announcing(pieces(&[16_500, 501]), 20_000, |_| Some(10)).await;
        assert!(matches!(far_longer, (Err(BodyError::LengthExceeded), None)), "{far_longer:?}");
        let announces_too_much = read_announcing(pieces(&[16_500, 4_000]), 20_000, |_| Some(99_000)).await;
        assert!(matches!(announces_too_much, (Err(BodyError::TooLarge), Some(60_000))), "{announces_too_much:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn oversized_and_slow_bodies_are_not_read_to_their_end() {
        assert!(matches!(read(pieces(&[9, 9]), 17).await, (Err(BodyError::TooLarge), None)));
        assert!(matches!(read(pieces(&[15_000, 15_000]), 20_000).await, (Err(BodyError::TooLarge), _)));
        for sent in [[1, 1], [15_000, 3_000]] {
            let body = Pieces { stays_open: true, ..pieces(&sent) };
            assert!(matches!(read(body, 20_000).await, (Err(BodyError::TooSlow), _)));
        }
    }
}
