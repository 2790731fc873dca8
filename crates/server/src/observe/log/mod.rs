//! The log: events as lines on stderr, never more of them than a disk can take.

pub(in crate::observe) mod event_text;
pub(in crate::observe) mod line_budget;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use super::event::Event;
use event_text::text;

/// How many lines may wait to be written. More come only if nobody takes them at the other end.
const WAITING_LINES: usize = 1_024;

/// How often somebody who waits for room looks whether there is some.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How the lines of the log look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// Each line is a JSON object.
    Json,
}

/// Writes events, one line each, on a thread of its own. Nobody waits for it:
/// when it cannot keep up, lines are lost and counted.
#[derive(Debug)]
pub struct Log {
    waiting: SyncSender<Message>,
    dropped: AtomicU64,
}

enum Message {
    Write(Arc<Event>),
    Flush(SyncSender<()>),
}

impl Log {
    /// Begins to write.
    pub fn start(format: LogFormat, sink: impl Write + Send + 'static) -> io::Result<Log> {
        let (waiting, messages) = sync_channel(WAITING_LINES);
        std::thread::Builder::new().name("tollgate-log".to_owned()).spawn(move || write(format, sink, &messages))?;
        Ok(Log { waiting, dropped: AtomicU64::new(0) })
    }

    pub(super) fn write(&self, event: &Arc<Event>) {
        if self.waiting.try_send(Message::Write(Arc::clone(event))).is_err() {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// How many lines were lost.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Waits until everything so far is written, but not longer than that.
    pub(super) fn flush(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let (done, is_done) = sync_channel(1);
        let mut message = Message::Flush(done);
        while let Err(TrySendError::Full(unsent)) = self.waiting.try_send(message) {
            if Instant::now() >= until {
                return;
            }
            message = unsent;
            std::thread::sleep(LOOK_EVERY);
        }
        // Whoever does not write for that long will not, or is gone.
        let _ = is_done.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

fn write(format: LogFormat, mut sink: impl Write, messages: &Receiver<Message>) {
    while let Ok(message) = messages.recv() {
        match message {
            Message::Write(event) => {
                let mut line = match format {
                    LogFormat::Text => text(&event),
                    LogFormat::Json => event.to_json(),
                };
                line.push('\n');
                // A service goes on when nobody reads what it says. One call for each line, so that lines stay whole.
                let _ = sink.write_all(line.as_bytes());
            }
            Message::Flush(done) => {
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

    /// Stands still until it is let go.
    struct Stuck(Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_cannot_keep_up_loses_lines_and_holds_up_nobody() {
        let (let_go, stuck) = channel();
        let log = Log::start(LogFormat::Json, Stuck(stuck)).unwrap();
        let notice = Notice { time: Timestamp(0), level: Level::Info, message: String::new() };
        let event = Arc::new(Event::Notice(notice));
        let written = WAITING_LINES + 100;
        (0..written).for_each(|_| log.write(&event));
        // One may have been taken already.
        assert!((99..=100).contains(&log.dropped()), "{}", log.dropped());
        log.flush(Duration::ZERO);
        drop(let_go);
        log.flush(Duration::from_secs(20));
        let dropped = log.dropped();
        log.write(&event);
        assert_eq!(log.dropped(), dropped);
    }
}
