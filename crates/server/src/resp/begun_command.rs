use std::future::pending;

use tokio::time::{Instant, sleep_until};

use super::limits::RespLimits;
use crate::listen::{Reservation, Resource, Share};

/// A command of which at most so many bytes have come is read on without asking for room.
const FREE_COMMAND_BYTES: usize = 8 << 10;

/// A command of which a part has come: until when the rest must come, and the room for it where it is long.
#[derive(Debug, Default)]
pub(super) struct BegunCommand {
    due: Option<Instant>,
    reserved: Option<Reservation>,
}

impl BegunCommand {
    /// Before more is read of what has come so far, if anything has.
    pub(super) async fn go_on(&mut self, input: &[u8], limits: RespLimits, share: &Share) {
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
    pub(super) async fn overdue(&self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => pending().await,
        }
    }
}
