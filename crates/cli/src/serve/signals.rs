use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that the service handles: SIGTERM, SIGINT and SIGHUP.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// The action that a signal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalAction {
    Stop,
    Reload,
}

impl Signals {
    pub(super) fn register() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop,
            _ = self.interrupt.recv() => SignalAction::Stop,
            _ = self.hang_up.recv() => SignalAction::Reload,
        }
    }

    /// Waits for a signal to stop, and ignores others.
    pub(super) async fn stop(&mut self) {
        while self.next().await != SignalAction::Stop {}
    }
}
