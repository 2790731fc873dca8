//! A connection that is read only as far as its address has resources.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};

use super::calls::Calls;
use crate::listen::{CallCapacity, WorkTurn};

/// The read size while call slots are scarce: the headers of a few calls.
const SCARCE_READ_BYTES: usize = 64;

/// The read size of a turn: doubles each time, unless the input is dense in header fields.
const FIRST_TURN_BYTES: usize = 512;
const LONGEST_TURN_BYTES: usize = 8 << 10;

/// A header field is expensive to parse. Gateways send one in some twenty bytes, messages included, but HPACK can
/// encode one in a byte.
const MIN_BYTES_PER_FIELD: usize = 8;

/// The read size for one slot: the headers of at most two calls.
const MIN_READ_BYTES: usize = 16;

/// The connection preface of HTTP/2.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream that is read as far as there are slots for calls.
///
/// The number of calls in the input is known only after parsing, which happens after all available input was read. So
/// while slots are scarce, it reads a little, and lets that be parsed first.
pub(super) struct BackpressureStream<S> {
    /// Limited to the size of one read.
    stream: Take<S>,
    calls: Arc<Calls>,
    /// Whether the last read may not be parsed yet.
    has_unparsed_bytes: bool,
    /// The wait for a call slot.
    next_slot: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The current turn. It ends when there is nothing to read.
    turn: Option<WorkTurn>,
    next_turn: Option<Pin<Box<dyn Future<Output = WorkTurn> + Send>>>,
    /// The read size of this turn, and the rest of it. The rest is read without another turn: gateways send little at
    /// a time, and would need a turn for every read.
    turn_bytes: usize,
    left_bytes: usize,
    /// The parsed fields when this turn began.
    fields: usize,
    /// Bytes that were read and are returned again first.
    replayed: &'static [u8],
}

impl<S: AsyncRead + Unpin> BackpressureStream<S> {
    pub(super) fn new(stream: S, calls: Arc<Calls>) -> BackpressureStream<S> {
        BackpressureStream {
            stream: stream.take(0),
            calls,
            has_unparsed_bytes: false,
            next_slot: None,
            turn: None,
            next_turn: None,
            turn_bytes: FIRST_TURN_BYTES / 2,
            left_bytes: 0,
            fields: 0,
            replayed: &[],
        }
    }

    /// Waits for the HTTP/2 preface, which is then returned again; `false` for other input or none. An idle client
    /// blocks nothing, and a client of another protocol gets no response.
    pub(super) async fn read_preface(&mut self) -> bool {
        let mut received = [0; PREFACE.len()];
        let mut count = 0;
        while count < received.len() {
            let Ok(more @ 1..) = self.read(&mut received[count..]).await else { return false };
            count += more;
            // A client of another protocol may wait for a response.
            if !PREFACE.starts_with(&received[..count]) {
                return false;
            }
        }
        self.replayed = PREFACE;
        true
    }

    /// Releases the turn if writes block: nothing is read then either, for as long as the peer does not read.
    fn note_written<T>(&mut self, context: &mut Context<'_>, polled: Poll<T>) -> Poll<T> {
        if polled.is_pending() {
            self.turn = None;
            // A turn granted meanwhile is released as well. The waiting reader would not be woken again.
            if self.next_turn.as_mut().is_some_and(|next| next.as_mut().poll(context).is_ready()) {
                self.next_turn = None;
                context.waker().wake_by_ref();
            }
        }
        polled
    }

    /// Waits for a turn once the size of the last is used up. Earlier input has been parsed then.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.left_bytes == 0 {
            if self.turn.take().is_some() {
                // Other tasks run first, even if no other connection of the address waits.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.turn = Some(match self.next_turn.is_none().then(|| self.calls.try_turn()).flatten() {
                Some(turn) => turn,
                None => {
                    let next = self.next_turn.get_or_insert_with(|| Box::pin(self.calls.turn()));
                    ready!(next.as_mut().poll(context))
                }
            });
            self.next_turn = None;
            self.begin_turn();
        }
        Poll::Ready(())
    }

    fn begin_turn(&mut self) {
        let fields = self.calls.fields();
        let is_dense = fields.wrapping_sub(self.fields) * MIN_BYTES_PER_FIELD > self.turn_bytes;
        self.fields = fields;
        self.turn_bytes = if is_dense { FIRST_TURN_BYTES } else { (2 * self.turn_bytes).min(LONGEST_TURN_BYTES) };
        self.left_bytes = self.turn_bytes;
    }

    fn poll_read_within_capacity(&mut self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let capacity = ready!(self.calls.poll_capacity(context));
        if capacity == CallCapacity::None {
            let next_slot = self.next_slot.get_or_insert_with(|| Box::pin(self.calls.reserve_slot()));
            ready!(next_slot.as_mut().poll(context));
        }
        self.next_slot = None;
        let read_bytes = match capacity {
            CallCapacity::Plenty => self.left_bytes,
            CallCapacity::Scarce => SCARCE_READ_BYTES,
            CallCapacity::None => MIN_READ_BYTES,
        };
        if capacity != CallCapacity::Plenty && std::mem::take(&mut self.has_unparsed_bytes) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.stream.set_limit(read_bytes as u64);
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        self.has_unparsed_bytes |= capacity != CallCapacity::Plenty;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BackpressureStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.calls.is_abused() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if !self.replayed.is_empty() {
            let (now, later) = self.replayed.split_at(self.replayed.len().min(into.remaining()));
            into.put_slice(now);
            self.replayed = later;
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_turn(context));
        let before = into.filled().len();
        let polled = self.poll_read_within_capacity(context, into);
        self.left_bytes = self.left_bytes.saturating_sub(into.filled().len() - before);
        if polled.is_pending() {
            // There is nothing to read in this turn, so other connections of the address may have it.
            self.turn = None;
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for BackpressureStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(self.stream.get_mut()).poll_write(context, from);
        self.note_written(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(self.stream.get_mut()).poll_write_vectored(context, from);
        self.note_written(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(self.stream.get_mut()).poll_flush(context);
        self.note_written(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

    use super::*;
    use crate::listen::AddressShare;

    /// Returns a stream with input whose writes block, and its peer.
    async fn stream_with_blocked_writes(share: &Arc<AddressShare>) -> (BackpressureStream<DuplexStream>, DuplexStream) {
        let (stream, mut peer) = duplex(64);
        let mut backpressure = BackpressureStream::new(stream, Calls::new(Arc::clone(share)));
        peer.write_all(&[b'x'; 64]).await.unwrap();
        backpressure.write_all(&[b'x'; 64]).await.unwrap();
        (backpressure, peer)
    }

    fn poll_read(backpressure: &mut BackpressureStream<DuplexStream>) -> Poll<io::Result<()>> {
        let mut bytes = [0; 8];
        let mut context = Context::from_waker(Waker::noop());
        Pin::new(backpressure).poll_read(&mut context, &mut ReadBuf::new(&mut bytes))
    }

    fn poll_write(backpressure: &mut BackpressureStream<DuplexStream>) -> Poll<io::Result<usize>> {
        Pin::new(backpressure).poll_write(&mut Context::from_waker(Waker::noop()), b"x")
    }

    fn all_turns(share: &AddressShare) -> Vec<WorkTurn> {
        std::iter::from_fn(|| share.try_turn()).collect()
    }

    #[tokio::test]
    async fn blocked_write_releases_the_turn() {
        let share = AddressShare::alone();
        let turns = all_turns(&share).len();
        let (mut backpressure, _peer) = stream_with_blocked_writes(&share).await;
        assert!(poll_read(&mut backpressure).is_ready());
        assert_eq!(all_turns(&share).len(), turns - 1);
        assert!(poll_write(&mut backpressure).is_pending());
        assert_eq!(all_turns(&share).len(), turns);
        assert!(poll_read(&mut backpressure).is_ready());
    }

    #[tokio::test]
    async fn blocked_write_releases_a_turn_granted_later() {
        let share = AddressShare::alone();
        let (mut backpressure, _peer) = stream_with_blocked_writes(&share).await;
        let held = all_turns(&share);
        let turns = held.len();
        assert!(poll_read(&mut backpressure).is_pending());
        assert!(poll_write(&mut backpressure).is_pending());
        // The stream still waits for a turn.
        assert!(backpressure.next_turn.is_some());
        drop(held);
        assert_eq!(all_turns(&share).len(), turns - 1);
        assert!(poll_write(&mut backpressure).is_pending());
        assert_eq!(all_turns(&share).len(), turns);
        assert!(poll_read(&mut backpressure).is_ready());
    }
}
