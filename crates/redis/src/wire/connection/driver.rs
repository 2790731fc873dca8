use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::transport::{Cause, Executed, Trouble};
use crate::wire::connection::call_queue::CallQueue;
use crate::wire::protocol::command::Command;
use crate::wire::protocol::reply_parser::ReplyParser;

/// What is written at once. More stays in the queue, where it can still be withdrawn.
const BATCH: usize = 64 * 1024;
const PIECE: usize = 64 * 1024;
/// So many answers are handed out at least before calls are sent again.
const FEWEST_ANSWERS: usize = 16;
/// And at most.
const MOST_ANSWERS: usize = 256;

/// Moves calls over one open connection, until it is lost.
///
/// It knows of every call whether any of its bytes were handed to the system.
/// Only then the outcome of a call that hears nothing is unknown.
pub(crate) struct Driver<'a, S> {
    stream: S,
    queue: &'a CallQueue,
    parser: ReplyParser,
    piece: Box<[u8]>,
    /// Taken from the queue, and not begun.
    ready: VecDeque<Box<dyn Command>>,
    /// The earliest deadline in `ready`, or an earlier time.
    earliest: Option<Instant>,
    /// Begun, in the order of their answers.
    sent: VecDeque<Sent>,
    out: Vec<u8>,
    /// How much of `out` was handed to the system.
    written: usize,
    /// How much was handed to the system before `out`.
    before: u64,
    /// Whether the system takes no more at present.
    is_blocked: bool,
    is_flushed: bool,
    /// Whether others were let run since a call came.
    has_waited: bool,
    /// Whether answers have come that were not handed out yet.
    is_interrupted: bool,
    last_heard: Instant,
    silence: Duration,
    timer: Pin<Box<Sleep>>,
    timer_at: Option<Instant>,
}

struct Sent {
    command: Box<dyn Command>,
    /// Where on the stream it begins and ends.
    begin: u64,
    end: u64,
    /// Answers that are still to come.
    replies: usize,
    at: Instant,
}

/// Why a connection is not used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nobody needs it.
    Closed,
    Lost(Cause),
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Driver<'a, S> {
    pub(crate) fn new(stream: S, queue: &'a CallQueue, silence: Duration) -> Driver<'a, S> {
        let now = Instant::now();
        Driver {
            stream,
            queue,
            parser: ReplyParser::default(),
            piece: vec![0; PIECE].into_boxed_slice(),
            ready: VecDeque::new(),
            earliest: None,
            sent: VecDeque::new(),
            out: Vec::with_capacity(BATCH),
            written: 0,
            before: 0,
            is_blocked: false,
            is_flushed: true,
            has_waited: false,
            is_interrupted: false,
            last_heard: now,
            silence,
            timer: Box::pin(sleep_until(now + silence)),
            timer_at: None,
        }
    }

    /// Runs until the connection ends, and tells every call that was taken what became of it.
    pub(crate) async fn run(mut self) -> End {
        let end = poll_fn(|cx| self.poll(cx)).await;
        self.give_up(end);
        end
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.is_interrupted {
            // Some were answered and call again. The server works on that while the others hear.
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
        if !self.ready.is_empty() && !self.has_waited {
            // The answers that just came wake callers who will call again. One round of theirs makes one write.
            self.has_waited = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_waited = false;
        if let Poll::Ready(cause) = self.poll_send(cx) {
            return Poll::Ready(End::Lost(cause));
        }
        if !is_open && self.ready.is_empty() && self.sent.is_empty() {
            return Poll::Ready(End::Closed);
        }
        self.poll_time(cx).map(End::Lost)
    }

    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        let known = self.ready.len();
        let is_open = self.queue.take(&mut self.ready, self.sent.len(), cx.waker());
        let new = self.ready.range(known..).map(|command| command.deadline()).min();
        self.earliest = self.earliest.into_iter().chain(new).min();
        is_open
    }

    /// Reads what has come, and hands out a part of the answers at a time. It is ready only with a loss.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Cause> {
        // A server answers a whole batch at once. It would have nothing to do until all of it is heard.
        let mut left = (self.sent.len() / 4).clamp(FEWEST_ANSWERS, MOST_ANSWERS);
        loop {
            loop {
                if left == 0 {
                    self.is_interrupted = true;
                    return Poll::Pending;
                }
                match self.parser.next() {
                    Ok(Some(value)) => {
                        let Some(first) = self.sent.front_mut() else {
                            // Nobody has asked for this.
                            return Poll::Ready(Cause::Protocol);
                        };
                        first.replies -= 1;
                        if first.replies == 0
                            && let Some(first) = self.sent.pop_front()
                        {
                            first.command.answered(Ok(value));
                        }
                        left -= 1;
                    }
                    Ok(None) => break,
                    Err(_) => return Poll::Ready(Cause::Protocol),
                }
            }
            let mut piece = ReadBuf::new(&mut self.piece);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece)) {
                Ok(()) if piece.filled().is_empty() => return Poll::Ready(Cause::Connection),
                Ok(()) => self.parser.feed(piece.filled()),
                Err(_) => return Poll::Ready(Cause::Connection),
            }
            self.last_heard = Instant::now();
        }
    }

    /// Writes all that is ready. It is ready only with a loss.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Cause> {
        loop {
            if self.written == self.out.len() {
                self.before += self.written as u64;
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

    /// Writes commands to `out`, less those whose time has passed.
    fn stage(&mut self) {
        // A blocked connection is tried with one command, not with a batch for each call that comes.
        let limit = if self.is_blocked { 1 } else { BATCH };
        let now = Instant::now();
        while self.out.len() < limit
            && let Some(command) = self.ready.pop_front()
        {
            if command.deadline() <= now {
                command.answered(Err(Trouble { cause: Cause::Timeout, executed: Executed::No }));
                continue;
            }
            let begin = self.before + self.out.len() as u64;
            command.write(&mut self.out);
            let end = self.before + self.out.len() as u64;
            let replies = command.replies();
            self.sent.push_back(Sent { command, begin, end, replies, at: now });
        }
        if self.ready.is_empty() {
            self.earliest = None;
        }
    }

    /// Takes back what was not begun, so that it is not sent after its deadline.
    fn unstage(&mut self) {
        let position = self.position();
        while let Some(last) = self.sent.pop_back_if(|last| last.begin >= position) {
            self.out.truncate((last.begin - self.before) as usize);
            self.earliest = self.earliest.into_iter().chain([last.command.deadline()]).min();
            self.ready.push_front(last.command);
        }
    }

    /// How much of the stream was handed to the system.
    fn position(&self) -> u64 {
        self.before + self.written as u64
    }

    /// Sees to deadlines of what was not sent, and to silence. It is ready only with a loss.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<Cause> {
        loop {
            let silent_at = self.sent.front().map(|first| first.at.max(self.last_heard) + self.silence);
            let Some(next) = silent_at.into_iter().chain(self.earliest).min() else { return Poll::Pending };
            // Times only move away as answers come, so a timer that is early is left as it is.
            if self.timer_at.is_none_or(|at| next < at) {
                self.timer.as_mut().reset(next);
                self.timer_at = Some(next);
            }
            ready!(self.timer.as_mut().poll(cx));
            self.timer_at = None;
            let now = Instant::now();
            if silent_at.is_some_and(|at| at <= now) {
                return Poll::Ready(Cause::Timeout);
            }
            if self.earliest.is_some_and(|at| at <= now) {
                self.expire(now);
            }
        }
    }

    fn expire(&mut self, now: Instant) {
        let (expired, rest): (VecDeque<_>, _) = self.ready.drain(..).partition(|command| command.deadline() <= now);
        self.ready = rest;
        self.earliest = self.ready.iter().map(|command| command.deadline()).min();
        for command in expired {
            command.answered(Err(Trouble { cause: Cause::Timeout, executed: Executed::No }));
        }
    }

    fn give_up(&mut self, end: End) {
        let position = self.position();
        let cause = match end {
            End::Closed => Cause::Connection,
            End::Lost(cause) => cause,
        };
        self.queue.forget_taken();
        for sent in self.sent.drain(..) {
            // A command of which a part is missing is not carried out.
            let executed = if sent.end <= position { Executed::Unknown } else { Executed::No };
            sent.command.answered(Err(Trouble { cause, executed }));
        }
        for command in self.ready.drain(..) {
            command.answered(Err(Trouble { cause, executed: Executed::No }));
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

    /// Ten bytes, and whoever hears of them.
    struct TenBytes {
        number: u8,
        deadline: Instant,
        heard: mpsc::UnboundedSender<(u8, Result<Value, Trouble>)>,
    }

    impl Command for TenBytes {
        fn deadline(&self) -> Instant {
            self.deadline
        }

        fn write(&self, out: &mut Vec<u8>) {
            out.extend([b'0' + self.number; 10]);
        }

        fn replies(&self) -> usize {
            1
        }

        fn answered(self: Box<Self>, answer: Result<Value, Trouble>) {
            let _ = self.heard.send((self.number, answer));
        }
    }

    /// Three calls, the first without a deadline, on a connection that takes so many bytes until its other end reads.
    async fn three_calls<F: Future>(capacity: usize, other_end: impl FnOnce(DuplexStream) -> F) -> Vec<(u8, Trouble)> {
        let queue = CallQueue::new(10);
        queue.set(State::Up);
        let (heard, mut hears) = mpsc::unbounded_channel();
        for number in 0..3 {
            let within = if number == 0 { Duration::from_secs(60) } else { Duration::from_millis(50) };
            queue.push(Box::new(TenBytes { number, deadline: Instant::now() + within, heard: heard.clone() }));
        }
        drop(heard);
        let (ours, theirs) = duplex(capacity);
        let driver = Driver::new(ours, &queue, Duration::from_secs(1)).run();
        tokio::join!(driver, other_end(theirs));
        let mut answers = Vec::new();
        while let Some((number, answer)) = hears.recv().await {
            answers.push((number, answer.unwrap_err()));
        }
        answers
    }

    const LATE: Trouble = Trouble { cause: Cause::Timeout, executed: Executed::No };

    #[tokio::test(start_paused = true)]
    async fn what_waits_behind_a_blocked_call_is_withdrawn_at_its_deadline() {
        let answers = three_calls(5, |mut other_end| async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            // Room again, too late for the others.
            let mut received = Vec::new();
            let _ = tokio::time::timeout(Duration::from_millis(100), other_end.read_to_end(&mut received)).await;
            assert_eq!(received, b"0000000000");
        });
        let lost = Trouble { cause: Cause::Connection, executed: Executed::Unknown };
        assert_eq!(answers.await, [(1, LATE), (2, LATE), (0, lost)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_of_which_a_part_is_missing_was_not_carried_out() {
        let not_sent = Trouble { cause: Cause::Connection, executed: Executed::No };
        let unknown = Trouble { cause: Cause::Connection, executed: Executed::Unknown };
        let closed_at_once = |capacity| three_calls(capacity, |other_end| async move { drop(other_end) });
        let closed_later = |capacity| {
            three_calls(capacity, |other_end| async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                drop(other_end);
            })
        };
        assert_eq!(closed_at_once(30).await, [(0, not_sent), (1, not_sent), (2, not_sent)]);
        assert_eq!(closed_later(9).await, [(0, not_sent), (1, not_sent), (2, not_sent)]);
        assert_eq!(closed_later(10).await, [(0, unknown), (1, not_sent), (2, not_sent)]);
        assert_eq!(closed_later(29).await, [(0, unknown), (1, unknown), (2, not_sent)]);
        assert_eq!(closed_later(30).await, [(0, unknown), (1, unknown), (2, unknown)]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_asked_for_ends_the_connection() {
        let answers = three_calls(1000, |mut other_end| async move {
            other_end.write_all(b":1\r\n").await.unwrap();
            tokio::time::sleep(Duration::from_secs(10)).await;
        });
        assert!(answers.await.iter().all(|(_, trouble)| trouble.cause == Cause::Protocol));
    }

    /// Ten bytes from somebody who calls once more when answered.
    struct CallsAgain {
        queue: Arc<CallQueue>,
        is_second: bool,
    }

    impl Command for CallsAgain {
        fn deadline(&self) -> Instant {
            Instant::now() + Duration::from_secs(60)
        }

        fn write(&self, out: &mut Vec<u8>) {
            out.extend([b'0'; 10]);
        }

        fn replies(&self) -> usize {
            1
        }

        fn answered(self: Box<Self>, _: Result<Value, Trouble>) {
            if !self.is_second {
                self.queue.push(Box::new(CallsAgain { queue: Arc::clone(&self.queue), is_second: true }));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_answered_first_calls_again_before_all_have_heard() {
        let queue = Arc::new(CallQueue::new(100));
        queue.set(State::Up);
        for _ in 0..40 {
            queue.push(Box::new(CallsAgain { queue: Arc::clone(&queue), is_second: false }));
        }
        let (ours, mut theirs) = duplex(10_000);
        let driver = Driver::new(ours, &queue, Duration::from_secs(1)).run();
        let other_end = async {
            let mut batch = [0; 400];
            theirs.read_exact(&mut batch).await.unwrap();
            theirs.write_all(&b":1\r\n".repeat(40)).await.unwrap();
            let first = theirs.read(&mut batch).await.unwrap();
            theirs.read_exact(&mut batch[first..]).await.unwrap();
            theirs.write_all(&b":1\r\n".repeat(40)).await.unwrap();
            queue.close();
            first
        };
        let (end, first) = tokio::join!(driver, other_end);
        assert_eq!((end, first), (End::Closed, FEWEST_ANSWERS * 10));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_the_connection() {
        let answers = three_calls(1000, |mut other_end| async move {
            let begun = Instant::now();
            let _ = other_end.read_to_end(&mut Vec::new()).await;
            assert_eq!(begun.elapsed().as_secs(), 1);
        });
        let silent = Trouble { cause: Cause::Timeout, executed: Executed::Unknown };
        assert_eq!(answers.await, [(0, silent), (1, silent), (2, silent)]);
    }
}
