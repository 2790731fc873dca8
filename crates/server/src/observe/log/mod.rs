//! The log: events as lines on stderr, written by a separate thread.

pub(in crate::observe) mod event_text;
pub(in crate::observe) mod line_budget;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use super::event::Event;
use event_text::text;

/// The maximum number of queued lines. More accumulate only if stderr is not read.
const MAX_QUEUED_LINES: usize = 1_024;

/// How often a flush retries while the queue is full.
const FLUSH_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventFormat {
    /// Text.
    #[default]
    Text,
    /// Each line is a JSON object.
    Json,
}

/// Writes events, one line each, on its own thread. Callers never wait: when it cannot keep up, lines are dropped and
/// counted.
#[derive(Debug)]
pub struct EventLog {
    queue: SyncSender<LogMessage>,
    dropped: AtomicU64,
    notices_only: bool,
}

enum LogMessage {
    Write(Arc<Event>),
    Flush(SyncSender<()>),
}

impl EventLog {
    /// Starts the writer thread.
    pub fn start(format: EventFormat, sink: impl Write + Send + 'static) -> io::Result<EventLog> {
        let (queue, messages) = sync_channel(MAX_QUEUED_LINES);
        std::thread::Builder::new().name("tollgate-log".to_owned()).spawn(move || write(format, sink, &messages))?;
        Ok(EventLog { queue, dropped: AtomicU64::new(0), notices_only: false })
    }

    /// Leaves out the events of clients and rules.
    #[must_use]
    pub fn notices_only(self) -> EventLog {
        EventLog { notices_only: true, ..self }
    }

    pub(super) fn write(&self, event: &Arc<Event>) {
        if self.notices_only && !matches!(**event, Event::Notice(_) | Event::Change(_)) {
            return;
        }
        if self.queue.try_send(LogMessage::Write(Arc::clone(event))).is_err() {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Returns the number of dropped lines.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Waits until all events so far are written, at most this long.
    pub(super) fn flush(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let (done, is_done) = sync_channel(1);
        let mut message = LogMessage::Flush(done);
        while let Err(TrySendError::Full(unsent)) = self.queue.try_send(message) {
            if Instant::now() >= deadline {
                return;
            }
            message = unsent;
            std::thread::sleep(FLUSH_POLL_INTERVAL);
        }
        // A writer that takes longer is blocked or gone.
        let _ = is_done.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

fn write(format: EventFormat, mut sink: impl Write, messages: &Receiver<LogMessage>) {
    while let Ok(message) = messages.recv() {
        match message {
            LogMessage::Write(event) => {
                let mut line = match format {
                    EventFormat::Text => text(&event),
                    EventFormat::Json => event.to_json(),
                };
                line.push('\n');
                // A failed write is ignored: the service continues. One call for each line keeps lines whole.
                let _ = sink.write_all(line.as_bytes());
            }
            LogMessage::Flush(done) => {
                let _ = sink.flush();
                let _ = done.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::observe::event::{Level, Notice};
    use crate::observe::timestamp::Timestamp;

    /// A writer that blocks until released.
    struct BlockedWriter(Receiver<()>);

    impl Write for BlockedWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn blocked_writer_drops_lines_without_blocking_callers() {
        let (release, blocked) = channel();
        let log = EventLog::start(EventFormat::Json, BlockedWriter(blocked)).unwrap();
        let notice = Notice { time: Timestamp(0), level: Level::Info, message: String::new() };
        let event = Arc::new(Event::Notice(notice));
        let written = MAX_QUEUED_LINES + 100;
        (0..written).for_each(|_| log.write(&event));
        // The thread may have taken one already.
        assert!((99..=100).contains(&log.dropped()), "{}", log.dropped());
        log.flush(Duration::ZERO);
        drop(release);
        log.flush(Duration::from_secs(20));
        let dropped = log.dropped();
        log.write(&event);
        assert_eq!(log.dropped(), dropped);
    }
}
