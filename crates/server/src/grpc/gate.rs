//! A connection from which nothing is read that its address has no room for.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};

use super::calls::Calls;
use crate::listen::{Room, Turn};

/// How much is read at once while there is little room: the fields of a few calls.
const FEW_BYTES: usize = 64;

/// How much is read in one turn: more in each, as long as it does not stand for many fields.
const FIRST_TURN_BYTES: usize = 512;
const LONGEST_TURN_BYTES: usize = 8 << 10;

/// A field takes long to understand. Gateways send one in some twenty bytes, messages included, but HPACK can write
/// one in a byte.
const BYTES_OF_A_FIELD: usize = 8;

/// How much is read at once for one place: the fields of two calls at most.
const FEWEST_BYTES: usize = 16;

/// What everybody says first who speaks HTTP/2.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream that is read as far as there is room for calls.
///
/// How many calls are in what it reads is known only when they have been understood, which is after all that has
/// come was read. So while there is little room it reads a little, and lets that be understood first.
pub(super) struct Gate<S> {
    /// Its limit is what one read may take.
    stream: Take<S>,
    calls: Arc<Calls>,
    /// Whether the last that was read may not have been understood.
    has_read_a_little: bool,
    place: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The turn in which something is read. It ends where there is nothing to read.
    turn: Option<Turn>,
    next_turn: Option<Pin<Box<dyn Future<Output = Turn> + Send>>>,
    /// How much may be read for this turn, and how much of it is left. What is left when the turn ends is read
    /// without another: gateways send little at a time, and would need a turn for every read.
    turn_bytes: usize,
    left_bytes: usize,
    /// The fields that had been understood when this turn began.
    fields: usize,
    /// What was read before, and is read again before anything else.
    again: &'static [u8],
}

impl<S: AsyncRead + Unpin> Gate<S> {
    pub(super) fn new(stream: S, calls: Arc<Calls>) -> Gate<S> {
        Gate {
            stream: stream.take(0),
            calls,
            has_read_a_little: false,
            place: None,
            turn: None,
            next_turn: None,
            turn_bytes: FIRST_TURN_BYTES / 2,
            left_bytes: 0,
            fields: 0,
            again: &[],
        }
    }

    /// Waits for the preface of HTTP/2, which can be read again then; `false` if it is another one, or none. Whoever
    /// says nothing holds up nobody, and whoever says something else learns nothing.
    pub(super) async fn greeted(&mut self) -> bool {
        let mut said = [0; PREFACE.len()];
        let mut count = 0;
        while count < said.len() {
            let Ok(more @ 1..) = self.read(&mut said[count..]).await else { return false };
            count += more;
            // A client of another protocol may be waiting for an answer.
            if !PREFACE.starts_with(&said[..count]) {
                return false;
            }
        }
        self.again = PREFACE;
        true
    }

    /// Keeps no turn where nothing can be written: nothing is read then either, for as long as the other end likes.
    fn note_written<T>(&mut self, context: &mut Context<'_>, polled: Poll<T>) -> Poll<T> {
        if polled.is_pending() {
            self.turn = None;
            // One that has come meanwhile is given back as well. Who waits to read would not hear of it again.
            if self.next_turn.as_mut().is_some_and(|next| next.as_mut().poll(context).is_ready()) {
                self.next_turn = None;
                context.waker().wake_by_ref();
            }
        }
        polled
    }

    /// Waits for a turn once what may be read for the last is used up. What was read before has been understood then.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.left_bytes == 0 {
            if self.turn.take().is_some() {
                // Other tasks go first, also where no other connection of the address waits.
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
        let is_dense = fields.wrapping_sub(self.fields) * BYTES_OF_A_FIELD > self.turn_bytes;
        self.fields = fields;
        self.turn_bytes = if is_dense { FIRST_TURN_BYTES } else { (2 * self.turn_bytes).min(LONGEST_TURN_BYTES) };
        self.left_bytes = self.turn_bytes;
    }

    fn poll_read_with_room(&mut self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let room = ready!(self.calls.poll_room(context));
        if room == Room::None {
            let place = self.place.get_or_insert_with(|| Box::pin(self.calls.place()));
            ready!(place.as_mut().poll(context));
        }
        self.place = None;
        let most = match room {
            Room::Plenty => self.left_bytes,
            Room::Scarce => FEW_BYTES,
            Room::None => FEWEST_BYTES,
        };
        if room != Room::Plenty && std::mem::take(&mut self.has_read_a_little) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.stream.set_limit(most as u64);
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        self.has_read_a_little |= room != Room::Plenty;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gate<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.calls.is_abused() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if !self.again.is_empty() {
            let (now, later) = self.again.split_at(self.again.len().min(into.remaining()));
            into.put_slice(now);
            self.again = later;
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_turn(context));
        let before = into.filled().len();
        let polled = self.poll_read_with_room(context, into);
        self.left_bytes = self.left_bytes.saturating_sub(into.filled().len() - before);
        if polled.is_pending() {
            // There is nothing to do in this turn, and others of the address may have it.
            self.turn = None;
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Gate<S> {
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
    use crate::listen::Share;

    /// A gate that has something to read and can write nothing, and the other end.
    async fn gate_that_cannot_write(share: &Arc<Share>) -> (Gate<DuplexStream>, DuplexStream) {
        let (stream, mut other_end) = duplex(64);
        let mut gate = Gate::new(stream, Calls::new(Arc::clone(share)));
        other_end.write_all(&[b'x'; 64]).await.unwrap();
        gate.write_all(&[b'x'; 64]).await.unwrap();
        (gate, other_end)
    }

    fn poll_read(gate: &mut Gate<DuplexStream>) -> Poll<io::Result<()>> {
        let mut bytes = [0; 8];
        let mut context = Context::from_waker(Waker::noop());
        Pin::new(gate).poll_read(&mut context, &mut ReadBuf::new(&mut bytes))
    }

    fn poll_write(gate: &mut Gate<DuplexStream>) -> Poll<io::Result<usize>> {
        Pin::new(gate).poll_write(&mut Context::from_waker(Waker::noop()), b"x")
    }

    fn all_turns(share: &Share) -> Vec<Turn> {
        std::iter::from_fn(|| share.try_turn()).collect()
    }

    #[tokio::test]
    async fn who_does_not_take_what_is_written_keeps_no_turn() {
        let share = Share::alone();
        let turns = all_turns(&share).len();
        let (mut gate, _other_end) = gate_that_cannot_write(&share).await;
        assert!(poll_read(&mut gate).is_ready());
        assert_eq!(all_turns(&share).len(), turns - 1);
        assert!(poll_write(&mut gate).is_pending());
        assert_eq!(all_turns(&share).len(), turns);
        assert!(poll_read(&mut gate).is_ready());
    }

    #[tokio::test]
    async fn nor_one_that_comes_meanwhile() {
        let share = Share::alone();
        let (mut gate, _other_end) = gate_that_cannot_write(&share).await;
        let held = all_turns(&share);
        let turns = held.len();
        assert!(poll_read(&mut gate).is_pending());
        assert!(poll_write(&mut gate).is_pending());
        // It still stands in line.
        assert!(gate.next_turn.is_some());
        drop(held);
        assert_eq!(all_turns(&share).len(), turns - 1);
        assert!(poll_write(&mut gate).is_pending());
        assert_eq!(all_turns(&share).len(), turns);
        assert!(poll_read(&mut gate).is_ready());
    }
}
