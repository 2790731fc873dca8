use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::transport::{CallError, Cause, Executed};
use crate::wire::connection::call_queue::CallQueue;
use crate::wire::protocol::command::ServerCommand;
use crate::wire::protocol::reply_parser::ReplyParser;

/// The maximum size of one write. Further commands stay in the queue, where they can still be withdrawn.
const WRITE_SIZE: usize = 64 * 1024;
const READ_SIZE: usize = 64 * 1024;
/// The minimum number of replies that are processed before commands are sent again.
const MIN_REPLIES: usize = 16;
/// The maximum number.
const MAX_REPLIES: usize = 256;

/// Sends commands over one open connection and receives their replies, until the connection is lost.
///
/// It tracks how many bytes were passed to the operating system. The outcome of a command without a reply is unknown
/// only if all of its bytes were.
pub(crate) struct Driver<'a, S> {
    stream: S,
    queue: &'a CallQueue,
    parser: ReplyParser,
    read_buffer: Box<[u8]>,
    /// Commands taken from the queue and not written.
    ready: VecDeque<Box<dyn ServerCommand>>,
    /// The earliest deadline in `ready`, or an earlier time.
    earliest_deadline: Option<Instant>,
    /// Commands written to `out`, in the order of their replies.
    sent: VecDeque<Sent>,
    out: Vec<u8>,
    /// The number of bytes of `out` that were passed to the operating system.
    written: usize,
    /// The position of `out` in the stream: the number of bytes written before it.
    out_position: u64,
    /// Whether the last write would have blocked.
    is_blocked: bool,
    is_flushed: bool,
    /// Whether the task has yielded once since a command arrived.
    has_yielded: bool,
    /// Whether the processing of received replies was interrupted in order to send commands.
    is_interrupted: bool,
    last_read_at: Instant,
    reply_timeout: Duration,
    timer: Pin<Box<Sleep>>,
    timer_at: Option<Instant>,
}

/// A command that waits for its replies.
struct Sent {
    command: Box<dyn ServerCommand>,
    /// Its first position in the stream, and the one after its last byte.
    begin: u64,
    end: u64,
    /// The number of outstanding replies.
    outstanding: usize,
    sent_at: Instant,
}

/// The reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The queue was closed.
    Closed,
    Lost(Cause),
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Driver<'a, S> {
    pub(crate) fn new(stream: S, queue: &'a CallQueue, reply_timeout: Duration) -> Driver<'a, S> {
        let now = Instant::now();
        Driver {
            stream,
            queue,
            parser: ReplyParser::default(),
            read_buffer: vec![0; READ_SIZE].into_boxed_slice(),
            ready: VecDeque::new(),
            earliest_deadline: None,
            sent: VecDeque::new(),
            out: Vec::with_capacity(WRITE_SIZE),
            written: 0,
            out_position: 0,
            is_blocked: false,
            is_flushed: true,
            has_yielded: false,
            is_interrupted: false,
            last_read_at: now,
            reply_timeout,
            timer: Box::pin(sleep_until(now + reply_timeout)),
            timer_at: None,
        }
    }

    /// Runs until the connection ends, and completes every command that was taken.
    pub(crate) async fn run(mut self) -> End {
        let end = poll_fn(|cx| self.poll(cx)).await;
        self.fail_all(end);
        end
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.is_interrupted {
            // Some callers have their reply and call again. The server executes these calls while the other replies are
            // processed.
            self.is_interrupted = false;
            self.take(cx);
            if let Poll::Ready(cause) = self.poll_send(cx) {
                return Poll::Ready(End::Lost(cause));
            }
        }
        if let Poll::Ready(cause) = self.poll_receive(cx) {
            return Poll::Ready(End::Lost(cause));
        }
        if self.is_interrupted {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let is_open = self.take(cx);
        if !self.ready.is_empty() && !self.has_yielded {
            // The replies that were just processed wake callers, which call again. Yielding once joins their calls into
            // one write.
            self.has_yielded = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_yielded = false;
        if let Poll::Ready(cause) = self.poll_send(cx) {
            return Poll::Ready(End::Lost(cause));
        }
        if !is_open && self.ready.is_empty() && self.sent.is_empty() {
            return Poll::Ready(End::Closed);
        }
        self.poll_time(cx).map(End::Lost)
    }

    /// Takes the waiting commands from the queue. Returns whether it is still open.
    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        let known = self.ready.len();
        let is_open = self.queue.take(&mut self.ready, self.sent.len(), cx.waker());
        let new = self.ready.range(known..).map(|command| command.deadline()).min();
        self.earliest_deadline = self.earliest_deadline.into_iter().chain(new).min();
        is_open
    }

    /// Reads received bytes, and completes a limited number of commands at a time. Ready only when the connection is
    /// lost.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Cause> {
        // A server replies to a whole batch at once, and would be idle until all its replies are processed.
        let mut left = (self.sent.len() / 4).clamp(MIN_REPLIES, MAX_REPLIES);
        loop {
            loop {
                if left == 0 {
                    self.is_interrupted = true;
                    return Poll::Pending;
                }
                match self.parser.next() {
                    Ok(Some(value)) => {
                        let Some(first) = self.sent.front_mut() else {
                            // A reply without a command.
                            return Poll::Ready(Cause::Protocol);
                        };
                        first.outstanding -= 1;
                        if first.outstanding == 0
                            && let Some(first) = self.sent.pop_front()
                        {
                            first.command.complete(Ok(value));
                        }
                        left -= 1;
                    }
                    Ok(None) => break,
                    Err(_) => return Poll::Ready(Cause::Protocol),
                }
            }
            let mut buffer = ReadBuf::new(&mut self.read_buffer);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer)) {
                Ok(()) if buffer.filled().is_empty() => return Poll::Ready(Cause::Connection),
                Ok(()) => self.parser.feed(buffer.filled()),
                Err(_) => return Poll::Ready(Cause::Connection),
            }
            self.last_read_at = Instant::now();
        }
    }

    /// Writes all commands in `ready`. Ready only when the connection is lost.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Cause> {
        loop {
            if self.written == self.out.len() {
                self.out_position += self.written as u64;
                self.written = 0;
                self.out.clear();
                self.stage();
                if self.out.is_empty() {
                    return self.poll_flush(cx);
                }
            }
            self.is_flushed = false;
            match Pin::new(&mut self.stream).poll_write(cx, &self.out[self.written..]) {
                Poll::Ready(Ok(count @ 1..)) => {
                    self.written += count;
                    self.is_blocked = false;
                }
                Poll::Ready(_) => return Poll::Ready(Cause::Connection),
                Poll::Pending => {
                    self.is_blocked = true;
                    self.unstage();
                    return Poll::Pending;
                }
            }
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Cause> {
        if self.is_flushed {
            return Poll::Pending;
        }
        match ready!(Pin::new(&mut self.stream).poll_flush(cx)) {
            Ok(()) => {
                self.is_flushed = true;
                Poll::Pending
            }
            Err(_) => Poll::Ready(Cause::Connection),
        }
    }

    /// Encodes commands into `out`, and fails those whose deadline has passed.
    fn stage(&mut self) {
        // A blocked connection is tried with one command, not with a batch for each new command.
        let limit = if self.is_blocked { 1 } else { WRITE_SIZE };
        let now = Instant::now();
        while self.out.len() < limit
            && let Some(command) = self.ready.pop_front()
        {
            if command.deadline() <= now {
                command.complete(Err(CallError { cause: Cause::Timeout, executed: Executed::No }));
                continue;
            }
            let begin = self.out_position + self.out.len() as u64;
            command.write(&mut self.out);
            let end = self.out_position + self.out.len() as u64;
            let outstanding = command.reply_count();
            self.sent.push_back(Sent { command, begin, end, outstanding, sent_at: now });
        }
        if self.ready.is_empty() {
            self.earliest_deadline = None;
        }
    }

    /// Moves commands of which no byte was written back to `ready`, so that they are not sent after their deadline.
    fn unstage(&mut self) {
        let position = self.position();
        while let Some(last) = self.sent.pop_back_if(|last| last.begin >= position) {
            self.out.truncate((last.begin - self.out_position) as usize);
            self.earliest_deadline = self.earliest_deadline.into_iter().chain([last.command.deadline()]).min();
            self.ready.push_front(last.command);
        }
    }

    /// Returns the position in the stream up to which bytes were passed to the operating system.
    fn position(&self) -> u64 {
        self.out_position + self.written as u64
    }

    /// Enforces the deadlines of commands that are not written, and the reply timeout. Ready only when the connection is
    /// lost.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<Cause> {
        loop {
            let times_out_at = self.sent.front().map(|first| first.sent_at.max(self.last_read_at) + self.reply_timeout);
            let Some(next) = times_out_at.into_iter().chain(self.earliest_deadline).min() else { return Poll::Pending };
            // Replies only move these times later, so a timer that is too early is left as it is.
            if self.timer_at.is_none_or(|at| next < at) {
                self.timer.as_mut().reset(next);
                self.timer_at = Some(next);
            }
            ready!(self.timer.as_mut().poll(cx));
            self.timer_at = None;
            let now = Instant::now();
            if times_out_at.is_some_and(|at| at <= now) {
                return Poll::Ready(Cause::Timeout);
            }
            if self.earliest_deadline.is_some_and(|at| at <= now) {
                self.expire(now);
            }
        }
    }

    /// Fails the commands in `ready` whose deadline has passed.
    fn expire(&mut self, now: Instant) {
        let (expired, rest): (VecDeque<_>, _) = self.ready.drain(..).partition(|command| command.deadline() <= now);
        self.ready = rest;
        self.earliest_deadline = self.ready.iter().map(|command| command.deadline()).min();
        for command in expired {
            command.complete(Err(CallError { cause: Cause::Timeout, executed: Executed::No }));
        }
    }

    /// Fails all commands that were taken.
    fn fail_all(&mut self, end: End) {
        let position = self.position();
        let cause = match end {
            End::Closed => Cause::Connection,
            End::Lost(cause) => cause,
        };
        self.queue.reset_taken();
        for sent in self.sent.drain(..) {
            // The server does not execute an incomplete command.
            let executed = if sent.end <= position { Executed::Unknown } else { Executed::No };
            sent.command.complete(Err(CallError { cause, executed }));
        }
        for command in self.ready.drain(..) {
            command.complete(Err(CallError { cause, executed: Executed::No }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::sync::mpsc;

    use super::*;
    use crate::resp_value::Value;
    use crate::wire::connection::call_queue::State;

    /// A command of ten bytes that sends its result to the test.
    struct TenBytes {
        number: u8,
        deadline: Instant,
        results: mpsc::UnboundedSender<(u8, Result<Value, CallError>)>,
    }

    impl ServerCommand for TenBytes {
        fn deadline(&self) -> Instant {
            self.deadline
        }

        fn write(&self, out: &mut Vec<u8>) {
            out.extend([b'0' + self.number; 10]);
        }

        fn reply_count(&self) -> usize {
            1
        }

        fn complete(self: Box<Self>, result: Result<Value, CallError>) {
            let _ = self.results.send((self.number, result));
        }
    }

    /// Returns the errors of three calls, the first with a long deadline, on a connection that buffers `capacity` bytes
    /// until its peer reads.
    async fn three_calls<F: Future>(capacity: usize, peer: impl FnOnce(DuplexStream) -> F) -> Vec<(u8, CallError)> {
        let queue = CallQueue::new(10);
        queue.set_state(State::Up);
        let (results, mut received) = mpsc::unbounded_channel();
        for number in 0..3 {
            let within = if number == 0 { Duration::from_secs(60) } else { Duration::from_millis(50) };
            queue.push(Box::new(TenBytes { number, deadline: Instant::now() + within, results: results.clone() }));
        }
        drop(results);
        let (ours, theirs) = duplex(capacity);
        let driver = Driver::new(ours, &queue, Duration::from_secs(1)).run();
        tokio::join!(driver, peer(theirs));
        let mut errors = Vec::new();
        while let Some((number, result)) = received.recv().await {
            errors.push((number, result.unwrap_err()));
        }
        errors
    }

    const LATE: CallError = CallError { cause: Cause::Timeout, executed: Executed::No };

    #[tokio::test(start_paused = true)]
    async fn calls_waiting_behind_a_blocked_call_are_withdrawn_at_their_deadline() {
        let errors = three_calls(5, |mut peer| async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            // The connection accepts bytes again, too late for the other calls.
            let mut received = Vec::new();
            let _ = tokio::time::timeout(Duration::from_millis(100), peer.read_to_end(&mut received)).await;
            assert_eq!(received, b"0000000000");
        });
        let lost = CallError { cause: Cause::Connection, executed: Executed::Unknown };
        assert_eq!(errors.await, [(1, LATE), (2, LATE), (0, lost)]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_completely_written_calls_have_an_unknown_outcome() {
        let not_sent = CallError { cause: Cause::Connection, executed: Executed::No };
        let unknown = CallError { cause: Cause::Connection, executed: Executed::Unknown };
        let closed_at_once = |capacity| three_calls(capacity, |peer| async move { drop(peer) });
        let closed_later = |capacity| {
            three_calls(capacity, |peer| async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                drop(peer);
            })
        };
        assert_eq!(closed_at_once(30).await, [(0, not_sent), (1, not_sent), (2, not_sent)]);
        assert_eq!(closed_later(9).await, [(0, not_sent), (1, not_sent), (2, not_sent)]);
        assert_eq!(closed_later(10).await, [(0, unknown), (1, not_sent), (2, not_sent)]);
        assert_eq!(closed_later(29).await, [(0, unknown), (1, unknown), (2, not_sent)]);
        assert_eq!(closed_later(30).await, [(0, unknown), (1, unknown), (2, unknown)]);
    }

    #[tokio::test(start_paused = true)]
    async fn reply_without_a_command_ends_the_connection() {
        let errors = three_calls(1000, |mut peer| async move {
            peer.write_all(b":1\r\n").await.unwrap();
            tokio::time::sleep(Duration::from_secs(10)).await;
        });
        assert!(errors.await.iter().all(|(_, error)| error.cause == Cause::Protocol));
    }

    /// A command of ten bytes whose caller calls once more when it has the reply.
    struct CallsAgain {
        queue: Arc<CallQueue>,
        is_second: bool,
    }

    impl ServerCommand for CallsAgain {
        fn deadline(&self) -> Instant {
            Instant::now() + Duration::from_secs(60)
        }

        fn write(&self, out: &mut Vec<u8>) {
            out.extend([b'0'; 10]);
        }

        fn reply_count(&self) -> usize {
            1
        }

        fn complete(self: Box<Self>, _: Result<Value, CallError>) {
            if !self.is_second {
                self.queue.push(Box::new(CallsAgain { queue: Arc::clone(&self.queue), is_second: true }));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_the_first_replied_callers_are_sent_before_all_replies_are_processed() {
        let queue = Arc::new(CallQueue::new(100));
        queue.set_state(State::Up);
        for _ in 0..40 {
            queue.push(Box::new(CallsAgain { queue: Arc::clone(&queue), is_second: false }));
        }
        let (ours, mut theirs) = duplex(10_000);
        let driver = Driver::new(ours, &queue, Duration::from_secs(1)).run();
        let peer = async {
            let mut batch = [0; 400];
            theirs.read_exact(&mut batch).await.unwrap();
            theirs.write_all(&b":1\r\n".repeat(40)).await.unwrap();
            let first = theirs.read(&mut batch).await.unwrap();
            theirs.read_exact(&mut batch[first..]).await.unwrap();
            theirs.write_all(&b":1\r\n".repeat(40)).await.unwrap();
            queue.close();
            first
        };
        let (end, first) = tokio::join!(driver, peer);
        assert_eq!((end, first), (End::Closed, MIN_REPLIES * 10));
    }

    #[tokio::test(start_paused = true)]
    async fn missing_reply_ends_the_connection_after_the_reply_timeout() {
        let errors = three_calls(1000, |mut peer| async move {
            let begun = Instant::now();
            let _ = peer.read_to_end(&mut Vec::new()).await;
            assert_eq!(begun.elapsed().as_secs(), 1);
        });
        let timed_out = CallError { cause: Cause::Timeout, executed: Executed::Unknown };
        assert_eq!(errors.await, [(0, timed_out), (1, timed_out), (2, timed_out)]);
    }
}
