use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::Body;
use hyper::body::Bytes;
use tokio::time::timeout;

use crate::listen::Reservation;

/// How large a body may be, and how slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    pub(crate) max_bytes: usize,
    /// Up to here it is read without asking for room.
    pub(crate) free_bytes: usize,
    /// What it takes while it is read and understood, in its own lengths.
    pub(crate) lengths_held: usize,
    pub(crate) at_most: Duration,
    /// How long it will be, where its beginning says so.
    pub(crate) length_by: fn(&[u8]) -> Option<usize>,
}

/// Why a body cannot be had.
#[derive(Debug)]
pub(crate) enum NoBody {
    TooLarge,
    /// There is more of it than its own beginning says.
    LongerThanItSays,
    /// Others hold what there is room for.
    NoRoom,
    /// It did not come in time.
    TooSlow,
    /// It broke off, for this reason.
    Broken(String),
}

/// A body, and the room for it where it is large.
#[derive(Debug)]
pub(crate) struct WholeBody {
    bytes: Bytes,
    reserved: Option<Reservation>,
}

impl Deref for WholeBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl WholeBody {
    /// Whether it had to ask for room.
    pub(crate) fn is_large(&self) -> bool {
        self.reserved.is_some()
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

/// Reads a body to its end, unless it is too large or too slow.
///
/// Where it is large, `reserve` waits for room before the rest is read, or finds that there is none. That wait is
/// ours and not the other end's, so the time begins anew after it.
pub(crate) async fn read_whole<B, F>(
    body: B,
    limits: BodyLimits,
    reserve: impl FnOnce(usize) -> F,
) -> Result<WholeBody, NoBody>
where
    B: Body<Data = Bytes, Error: Display>,
    F: Future<Output = Option<Reservation>>,
{
    let announced = body.size_hint();
    // Who announces too much is told before anything is read.
    if announced.lower() > limits.max_bytes as u64 {
        return Err(NoBody::TooLarge);
    }
    let announced = announced.upper().and_then(|bytes| usize::try_from(bytes).ok());
    let mut body = pin!(body);
    let mut collected = Collected { first: Bytes::new(), all: Vec::new(), max_bytes: limits.max_bytes };
    let read = poll_fn(|context| Poll::Ready(collected.poll_read(body.as_mut(), context, limits.free())));
    match read.await {
        // Nearly every body is here already, and needs neither a timer nor room.
        Poll::Ready(Ok(true)) => Ok(WholeBody { bytes: collected.into_bytes(), reserved: None }),
        Poll::Ready(Err(error)) => Err(error),
        // On the heap: it is large, and all others would be moved about with the room for it.
        _ => Box::pin(read_on(body, collected, announced, limits, reserve)).await,
    }
}

/// Reads the rest of a body that has not come at once, or is large.
async fn read_on<B, F>(
    mut body: Pin<&mut B>,
    mut collected: Collected,
    announced: Option<usize>,
    limits: BodyLimits,
    reserve: impl FnOnce(usize) -> F,
) -> Result<WholeBody, NoBody>
where
    B: Body<Data = Bytes, Error: Display>,
    F: Future<Output = Option<Reservation>>,
{
    let BodyLimits { max_bytes, at_most, .. } = limits;
    let read = poll_fn(|context| collected.poll_read(body.as_mut(), context, limits.free()));
    if timeout(at_most, read).await.map_err(|_| NoBody::TooSlow)?? {
        return Ok(WholeBody { bytes: collected.into_bytes(), reserved: None });
    }
    collected.let_go_of_the_buffer();
    let expected = announced.or_else(|| (limits.length_by)(&collected.all)).unwrap_or(max_bytes).min(max_bytes);
    // There is room for no more than it says, so no more of it is kept.
    let too_long = if expected < max_bytes { NoBody::LongerThanItSays } else { NoBody::TooLarge };
    collected.max_bytes = expected;
    if collected.len() > expected {
        return Err(too_long);
    }
    let reserved = reserve(limits.lengths_held * expected).await.ok_or(NoBody::NoRoom)?;
    collected.all.reserve_exact(expected.saturating_sub(collected.all.len()));
    let read = poll_fn(|context| collected.poll_read(body.as_mut(), context, max_bytes));
    match timeout(at_most, read).await.map_err(|_| NoBody::TooSlow)? {
        Ok(_) => Ok(WholeBody { bytes: collected.into_bytes(), reserved: Some(reserved) }),
        Err(NoBody::TooLarge) => Err(too_long),
        Err(error) => Err(error),
    }
}

impl BodyLimits {
    /// How much is read without asking for room.
    fn free(&self) -> usize {
        self.free_bytes.min(self.max_bytes)
    }
}

/// What was read of a body.
struct Collected {
    /// Nearly every body comes in one piece, and that is not copied.
    first: Bytes,
    all: Vec<u8>,
    max_bytes: usize,
}

impl Collected {
    /// Reads on until the body has ended, or there are more than `enough` bytes. Returns whether it has ended.
    fn poll_read<B>(
        &mut self,
        mut body: Pin<&mut B>,
        context: &mut Context<'_>,
        enough: usize,
    ) -> Poll<Result<bool, NoBody>>
    where
        B: Body<Data = Bytes, Error: Display>,
    {
        while self.len() <= enough {
            match body.as_mut().poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(piece) = frame.into_data() {
                        self.add(piece)?;
                    }
                    // Nearly every body ends with its first piece, and to ask once more would show.
                    if body.is_end_stream() {
                        return Poll::Ready(Ok(true));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(NoBody::Broken(error.to_string()))),
                Poll::Ready(None) => return Poll::Ready(Ok(true)),
                Poll::Pending => {
                    self.let_go_of_the_buffer();
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(false))
    }

    fn add(&mut self, piece: Bytes) -> Result<(), NoBody> {
        if self.len() + piece.len() > self.max_bytes {
            return Err(NoBody::TooLarge);
        }
        if self.len() == 0 {
            self.first = piece;
        } else {
            self.let_go_of_the_buffer();
            self.all.extend_from_slice(&piece);
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }

    /// Copies the first piece: it is a part of the connection's buffer, and a few bytes would keep all of it.
    fn let_go_of_the_buffer(&mut self) {
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

    /// Pieces of so many bytes each; nothing comes after them if `stays_open`.
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

    const FREE_BYTES: usize = 16 << 10;

    /// The length of a body, and for how much room it asked.
    async fn read(body: Pieces, max_bytes: usize) -> (Result<usize, NoBody>, Option<usize>) {
        read_saying(body, max_bytes, |_| None).await
    }

    /// The same of a body whose beginning may say how long it is.
    async fn read_saying(
        body: Pieces,
        max_bytes: usize,
        length_by: fn(&[u8]) -> Option<usize>,
    ) -> (Result<usize, NoBody>, Option<usize>) {
        let mut asked = None;
        let reserve = |bytes| {
            asked = Some(bytes);
            async { Some(Reservation::default()) }
        };
        let limits = BodyLimits {
            max_bytes,
            free_bytes: FREE_BYTES,
            lengths_held: 3,
            at_most: Duration::from_secs(1),
            length_by,
        };
        let read = read_whole(body, limits, reserve).await.map(|body| body.len());
        (read, asked)
    }

    #[tokio::test(start_paused = true)]
    async fn small_bodies_ask_for_no_room() {
        for body in [pieces(&[]), pieces(&[9]), pieces(&[FREE_BYTES]), pieces(&[1; 1_000])] {
            let expected = body.pieces.iter().sum::<usize>();
            assert!(matches!(read(body, 1 << 20).await, (Ok(length), None) if length == expected));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_ask_for_what_they_announce_or_could_be() {
        let body = pieces(&[FREE_BYTES, 1]);
        assert!(matches!(read(body, 20_000).await, (Ok(_), Some(60_000))));
        let body = Pieces { announced: Some(17_000), ..pieces(&[10_000, 7_000]) };
        assert!(matches!(read(body, 20_000).await, (Ok(17_000), Some(51_000))));
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_hold_no_more_than_their_beginning_says() {
        let says = |_: &[u8]| Some(17_000);
        let exact = read_saying(pieces(&[16_500, 500]), 20_000, says).await;
        assert!(matches!(exact, (Ok(17_000), Some(51_000))), "{exact:?}");
        let longer = read_saying(pieces(&[16_500, 501]), 20_000, says).await;
        assert!(matches!(longer, (Err(NoBody::LongerThanItSays), Some(51_000))), "{longer:?}");
        // What is too long already asks for no room.
        let far_longer = read_saying(pieces(&[16_500, 501]), 20_000, |_| Some(10)).await;
        assert!(matches!(far_longer, (Err(NoBody::LongerThanItSays), None)), "{far_longer:?}");
        let says_too_much = read_saying(pieces(&[16_500, 4_000]), 20_000, |_| Some(99_000)).await;
        assert!(matches!(says_too_much, (Err(NoBody::TooLarge), Some(60_000))), "{says_too_much:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_are_too_large_or_too_slow_are_not_read_to_their_end() {
        assert!(matches!(read(pieces(&[9, 9]), 17).await, (Err(NoBody::TooLarge), None)));
        assert!(matches!(read(pieces(&[15_000, 15_000]), 20_000).await, (Err(NoBody::TooLarge), _)));
        for sent in [[1, 1], [15_000, 3_000]] {
            let body = Pieces { stays_open: true, ..pieces(&sent) };
            assert!(matches!(read(body, 20_000).await, (Err(NoBody::TooSlow), _)));
        }
    }
}
