//! The requests that one policy allows and another refuses.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// The changes from one policy to another, by client.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) clients: HashMap<u32, ClientChange, RandomState>,
}

/// The changed requests of a client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClientChange {
    /// The requests that only the second policy allows.
    pub(super) newly_refused: u64,
    /// The requests that only the first policy allows.
    pub(super) newly_allowed: u64,
}

impl Changes {
    /// Counts a request by whether it passes under the simulated policy and under the one it is compared with.
    #[inline]
    pub(super) fn count(&mut self, client: u32, passes: bool, passed: bool) {
        if passes == passed {
            return;
        }
        let change = self.clients.entry(client).or_default();
        if passed {
            change.newly_refused += 1;
        } else {
            change.newly_allowed += 1;
        }
    }
}
