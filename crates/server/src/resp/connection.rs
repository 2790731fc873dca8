use std::future::{pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::commands::{self, Left};
use super::parser::{Found, Parser};
use super::reply::Reply;
use super::session::{RespGate, RespLimits, Session};
use crate::engine::Engine;
use crate::listen::{Reservation, Resource, Share, until_stopped};
use crate::within::within;

/// Read at once, where that much has come: some fifty commands.
const READ_BYTES: usize = 4 << 10;

/// Answers are sent before they take more than this, and a connection keeps no more than this while it is idle.
const KEEP_BYTES: usize = 16 << 10;

/// As much as is still taken from a client that is not answered any more.
const DISCARD_BYTES: usize = 64 << 10;

/// A command of which at most so many bytes have come is read on without asking for room.
const FREE_COMMAND_BYTES: usize = 8 << 10;

/// Serves one connection until the client leaves, until it cannot be understood
/// any more, or until the service stops: then what was read is answered first.
///
/// Every command that has come is answered with those that came with it, in one
/// write. A client that does not read its answers is not read from either.
pub async fn serve_connection(
    io: impl AsyncRead + AsyncWrite + Unpin + Send,
    engine: Arc<Engine>,
    limits: RespLimits,
    gate: Option<RespGate>,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    serve_with_share(io, engine, limits, gate, Share::alone(), stopped).await
}

/// The same for a connection that shares with others of its address what it may hold.
pub(crate) async fn serve_with_share(
    mut io: impl AsyncRead + AsyncWrite + Unpin + Send,
    engine: Arc<Engine>,
    limits: RespLimits,
    gate: Option<RespGate>,
    share: Arc<Share>,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut connection = Connection::new(limits, gate);
    let mut watched = stopped.clone();
    let mut stop = pin!(until_stopped(&mut watched));
    loop {
        connection.make_room();
        connection.begun.go_on(&connection.input, limits, &share).await;
        tokio::select! {
            // What has come goes first: who stops answers it too.
            biased;
            read = io.read_buf(&mut connection.input) => if read? == 0 {
                return Ok(());
            },
            () = &mut stop => return close(&mut io).await,
            () = connection.begun.overdue() => return Err(io::ErrorKind::TimedOut.into()),
        }
        connection.answer_all(&engine, &mut io).await?;
        // Whether it stops is asked here too: a client that always has more would never be stopped otherwise.
        if connection.session.is_over || *stopped.borrow() {
            return close(&mut io).await;
        }
    }
}

struct Connection {
    begun: BegunCommand,
    parser: Parser,
    session: Session,
    /// What was read and not answered.
    input: Vec<u8>,
    /// Answers that were not sent.
    output: Vec<u8>,
}

impl Connection {
    fn new(limits: RespLimits, gate: Option<RespGate>) -> Connection {
        Connection {
            begun: BegunCommand::default(),
            parser: Parser::new(limits),
            session: Session::new(limits, gate),
            input: Vec::with_capacity(READ_BYTES),
            output: Vec::new(),
        }
    }

    /// Room to read into, and not much more than that in a connection that holds nothing.
    fn make_room(&mut self) {
        if self.input.is_empty() && self.input.capacity() > KEEP_BYTES {
            self.input = Vec::new();
        }
        if self.output.capacity() > 2 * KEEP_BYTES {
            self.output = Vec::new();
        }
        // Grows with what a connection is in the middle of, which the parser bounds.
        self.input.reserve(READ_BYTES);
    }

    async fn answer_all(&mut self, engine: &Engine, io: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut answered = 0;
        let mut begun_ns = engine.now_ns();
        while !self.session.is_over {
            if self.parser.is_between_commands() {
                let rest = &self.input[answered..];
                answered += commands::throttle_again(engine, &mut self.session, rest, &mut self.output, KEEP_BYTES);
            }
            let rest = &self.input[answered..];
            match self.parser.parse(rest) {
                Ok(Found::Part) => break,
                Ok(Found::Nothing(length)) => answered += length,
                Ok(Found::Command(length)) => {
                    let arguments = self.parser.arguments(rest);
                    match commands::answer(engine, &mut self.session, arguments, &mut self.output) {
                        Left::Nothing => {}
                        Left::Check => {
                            note_throttled(engine, &mut self.session, begun_ns);
                            let mut reply = Reply::new(&mut self.output, self.session.protocol);
                            commands::check(engine, arguments, &mut reply).await;
                            begun_ns = engine.now_ns();
                        }
                        Left::Throttle => {
                            commands::throttle_shared(engine, &mut self.session, arguments, &mut self.output).await;
                        }
                    }
                    answered += length;
                }
                Err(error) => {
                    Reply::new(&mut self.output, self.session.protocol).error(format!("ERR Protocol error: {error}"));
                    self.session.is_over = true;
                }
            }
            if self.output.len() >= KEEP_BYTES {
                note_throttled(engine, &mut self.session, begun_ns);
                self.send(io).await?;
                begun_ns = engine.now_ns();
            }
        }
        note_throttled(engine, &mut self.session, begun_ns);
        // What is left came with the last command and is shorter than what was just read.
        self.input.drain(..answered);
        if answered > 0 {
            self.begun = BegunCommand::default();
        }
        self.send(io).await
    }

    async fn send(&mut self, io: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        let output = &self.output;
        let sent = pin!(async {
            io.write_all(output).await?;
            // A stream that buffers, such as an encrypted one, would keep it.
            io.flush().await
        });
        within(self.session.limits.answers_at_most, sent).await.ok_or(io::ErrorKind::TimedOut)??;
        self.output.clear();
        Ok(())
    }
}

/// A command of which a part has come: until when the rest must come, and the room for it where it is long.
#[derive(Debug, Default)]
struct BegunCommand {
    due: Option<Instant>,
    reserved: Option<Reservation>,
}

impl BegunCommand {
    /// Before more is read of what has come so far, if anything has.
    async fn go_on(&mut self, input: &[u8], limits: RespLimits, share: &Share) {
        if input.is_empty() {
            return;
        }
        if self.due.is_none() {
            self.due = Some(Instant::now() + limits.command_at_most);
        }
        if input.len() > FREE_COMMAND_BYTES && self.reserved.is_none() {
            // The buffer doubles as it grows.
            self.reserved = Some(share.reserve(Resource::RequestBytes, 2 * limits.frame_bytes).await);
            // That wait was not the client's.
            self.due = Some(Instant::now() + limits.command_at_most);
        }
    }

    /// Waits until the command has taken too long. Between commands a connection may be idle.
    async fn overdue(&self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => pending().await,
        }
    }
}

/// Notes how long the decisions since `begun_ns` took, if there were any.
fn note_throttled(engine: &Engine, session: &mut Session, begun_ns: u64) {
    if session.throttled.count() > 0 {
        engine.note_throttled(&std::mem::take(&mut session.throttled), begun_ns);
    }
}

/// Says goodbye, so that the last answer arrives.
async fn close(io: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    io.shutdown().await?;
    discard(io).await;
    Ok(())
}

/// Takes what has come already. A connection that is closed with bytes unread is
/// reset, and the reset may overtake the last answer.
async fn discard(io: &mut (impl AsyncRead + Unpin)) {
    let mut bytes = [0; 1 << 10];
    for _ in 0..DISCARD_BYTES / bytes.len() {
        let read = poll_fn(|context| {
            let mut buffer = ReadBuf::new(&mut bytes);
            let has_read = match Pin::new(&mut *io).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) => !buffer.filled().is_empty(),
                Poll::Ready(Err(_)) | Poll::Pending => false,
            };
            Poll::Ready(has_read)
        });
        if !read.await {
            return;
        }
    }
}
