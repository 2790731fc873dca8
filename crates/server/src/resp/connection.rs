use std::future::{pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::commands::{self, Deferred};
use super::parser::{Parsed, Parser};
use super::reply::RespReply;
use super::session::{RespAuth, RespLimits, Session};
use crate::engine::Engine;
use crate::listen::{AddressShare, Reservation, Resource, until_stopped};
use crate::timeout_unless_ready::timeout_unless_ready;

/// The size of a read: some fifty commands.
const READ_BYTES: usize = 4 << 10;

/// Replies are sent before they exceed this size, and an idle connection keeps no larger buffers.
const MAX_KEPT_BYTES: usize = 16 << 10;

/// How much is still read from a client after the last reply.
const DISCARD_BYTES: usize = 64 << 10;

/// Commands up to this size need no memory reservation.
const UNRESERVED_COMMAND_BYTES: usize = 8 << 10;

/// Serves one connection until the client disconnects, a protocol error occurs, or the service stops: then commands
/// already read get their replies first.
///
/// The replies to pipelined commands are sent in one write. The service does not read from a client that does not read its
/// replies.
pub async fn serve_connection(
    io: impl AsyncRead + AsyncWrite + Unpin + Send,
    engine: Arc<Engine>,
    limits: RespLimits,
    auth: Option<RespAuth>,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    serve_with_share(io, engine, limits, auth, AddressShare::alone(), stopped).await
}

/// The same for a connection that shares resources with others of its address.
pub(crate) async fn serve_with_share(
    mut io: impl AsyncRead + AsyncWrite + Unpin + Send,
    engine: Arc<Engine>,
    limits: RespLimits,
    auth: Option<RespAuth>,
    share: Arc<AddressShare>,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut connection = RespConnection::new(limits, auth);
    let mut stop_receiver = stopped.clone();
    let mut stop = pin!(until_stopped(&mut stop_receiver));
    loop {
        connection.prepare_buffers();
        connection.partial.prepare(&connection.input, limits, &share).await;
        tokio::select! {
            // Input first: its commands get replies even while stopping.
            biased;
            read = io.read_buf(&mut connection.input) => if read? == 0 {
                return Ok(());
            },
            () = &mut stop => return close(&mut io).await,
            () = connection.partial.overdue() => return Err(io::ErrorKind::TimedOut.into()),
        }
        connection.execute_all(&engine, &mut io).await?;
        // Checked here too: a client that always has more input would never be stopped otherwise.
        if connection.session.is_ending || *stopped.borrow() {
            return close(&mut io).await;
        }
    }
}

struct RespConnection {
    partial: PartialCommand,
    parser: Parser,
    session: Session,
    /// Input that is not processed yet.
    input: Vec<u8>,
    /// Replies that are not sent yet.
    output: Vec<u8>,
}

impl RespConnection {
    fn new(limits: RespLimits, auth: Option<RespAuth>) -> RespConnection {
        RespConnection {
            partial: PartialCommand::default(),
            parser: Parser::new(limits),
            session: Session::new(limits, auth),
            input: Vec::with_capacity(READ_BYTES),
            output: Vec::new(),
        }
    }

    /// Ensures space to read, and shrinks the buffers of an idle connection.
    fn prepare_buffers(&mut self) {
        if self.input.is_empty() && self.input.capacity() > MAX_KEPT_BYTES {
            self.input = Vec::new();
        }
        if self.output.capacity() > 2 * MAX_KEPT_BYTES {
            self.output = Vec::new();
        }
        // Grows with a partial command, whose size the parser limits.
        self.input.reserve(READ_BYTES);
    }

    async fn execute_all(&mut self, engine: &Engine, io: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut processed = 0;
        let mut begun_ns = engine.now_ns();
        while !self.session.is_ending {
            if self.parser.is_between_commands() {
                let rest = &self.input[processed..];
                processed +=
                    commands::throttle_repeated(engine, &mut self.session, rest, &mut self.output, MAX_KEPT_BYTES);
            }
            let rest = &self.input[processed..];
            match self.parser.parse(rest) {
                Ok(Parsed::Part) => break,
                Ok(Parsed::Nothing(length)) => processed += length,
                Ok(Parsed::Command(length)) => {
                    let arguments = self.parser.arguments(rest);
                    match commands::execute(engine, &mut self.session, arguments, &mut self.output) {
                        Deferred::Nothing => {}
                        Deferred::Check => {
                            note_throttled(engine, &mut self.session, begun_ns);
                            let mut reply = RespReply::new(&mut self.output, self.session.protocol);
                            commands::check(engine, arguments, &mut reply).await;
                            begun_ns = engine.now_ns();
                        }
                        Deferred::Throttle => {
                            commands::throttle_shared(engine, &mut self.session, arguments, &mut self.output).await;
                        }
                    }
                    processed += length;
                }
                Err(error) => {
                    RespReply::new(&mut self.output, self.session.protocol)
                        .error(format!("ERR Protocol error: {error}"));
                    self.session.is_ending = true;
                }
            }
            if self.output.len() >= MAX_KEPT_BYTES {
                note_throttled(engine, &mut self.session, begun_ns);
                self.send(io).await?;
                begun_ns = engine.now_ns();
            }
        }
        note_throttled(engine, &mut self.session, begun_ns);
        // The rest arrived with the last command and is shorter than the last read.
        self.input.drain(..processed);
        if processed > 0 {
            self.partial = PartialCommand::default();
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
            // A buffering stream, such as TLS, needs a flush.
            io.flush().await
        });
        timeout_unless_ready(self.session.limits.reply_timeout, sent).await.ok_or(io::ErrorKind::TimedOut)??;
        self.output.clear();
        Ok(())
    }
}

/// A partial command: its deadline, and its memory reservation if it is long.
#[derive(Debug, Default)]
struct PartialCommand {
    due: Option<Instant>,
    reserved: Option<Reservation>,
}

impl PartialCommand {
    /// Sets the deadline and reserves memory before more of a partial command is read.
    async fn prepare(&mut self, input: &[u8], limits: RespLimits, share: &AddressShare) {
        if input.is_empty() {
            return;
        }
        if self.due.is_none() {
            self.due = Some(Instant::now() + limits.command_timeout);
        }
        if input.len() > UNRESERVED_COMMAND_BYTES && self.reserved.is_none() {
            // The buffer doubles when it grows.
            self.reserved = Some(share.reserve(Resource::RequestBytes, 2 * limits.frame_bytes).await);
            // The wait for memory does not count against the client.
            self.due = Some(Instant::now() + limits.command_timeout);
        }
    }

    /// Waits until the deadline of the command. Between commands there is none.
    async fn overdue(&self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => pending().await,
        }
    }
}

/// Records the time of the decisions since `begun_ns`, if there were any.
fn note_throttled(engine: &Engine, session: &mut Session, begun_ns: u64) {
    if session.throttled.count() > 0 {
        engine.note_throttled(&std::mem::take(&mut session.throttled), begun_ns);
    }
}

/// Closes the connection so that the last reply arrives.
async fn close(io: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    io.shutdown().await?;
    discard(io).await;
    Ok(())
}

/// Reads what has already arrived. Closing a connection with unread bytes resets it, and the reset may discard the
/// last reply.
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
