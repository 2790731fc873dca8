use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals by which an operator speaks to the service.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// What an operator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Stop,
    Reload,
}

impl Signals {
    pub(super) fn take() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> Wanted {
        tokio::select! {
            _ = self.terminate.recv() => Wanted::Stop,
            _ = self.interrupt.recv() => Wanted::Stop,
            _ = self.hang_up.recv() => Wanted::Reload,
        }
    }

    /// Waits until told to stop; nothing else is of interest any more.
    pub(super) async fn stop(&mut self) {
        while self.next().await != Wanted::Stop {}
    }
}
