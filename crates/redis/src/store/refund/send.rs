//! Calls that nobody waits for: what is given back, settled, renewed and reset.

use std::sync::Arc;

use tokio::time::{Instant, sleep};

use crate::call::{Call, Lines};
use crate::store::Inner;
use crate::transport::{Answered, Done, Executed, Slot, Trouble};

/// Who hears what became of a call in the background.
type Heard = Box<dyn FnOnce(&Arc<Inner>, Answered) + Send>;

impl Inner {
    /// Sends what can turn a refusal into an admission. Refusals of its keys are
    /// forgotten when it is sent and again when it is heard of: what was asked
    /// in between may have been refused before it arrived.
    pub(in crate::store) fn send_refund(
        self: &Arc<Self>,
        slot: Slot,
        lines: Lines,
        keys: Vec<Box<[u8]>>,
        heard: impl FnOnce(&Arc<Inner>, Answered) + Send + 'static,
    ) {
        self.forget_refusals_of(&keys);
        let heard = move |store: &Arc<Inner>, answered: Answered| {
            store.forget_refusals_of(&keys);
            if matches!(answered, Err(Trouble { executed: Executed::Unknown, .. })) {
                store.counters.lost_refunds.add(1);
            }
            heard(store, answered);
        };
        self.send_in_background(slot, lines, 0, Box::new(heard));
    }

    fn forget_refusals_of(&self, keys: &[Box<[u8]>]) {
        let now = Instant::now();
        self.seam.refunded(keys).iter().for_each(|key| self.refusals.forget(key, now));
    }

    /// Sends a call, and again a few times where it is certain that it was not carried out.
    pub(in crate::store) fn send_in_background(self: &Arc<Self>, slot: Slot, lines: Lines, sent: u32, heard: Heard) {
        let (store, again) = (Arc::clone(self), lines.clone());
        let done = Done::new(move |answered| {
            if sent < store.settings.resends && may_send_again(&answered) {
                return store.resend_later(slot, again, sent, heard);
            }
            heard(&store, answered);
        });
        let deadline = Instant::now() + self.settings.background_deadline;
        self.transport.send(slot, Call { lines }, deadline, done);
    }

    fn resend_later(self: &Arc<Self>, slot: Slot, lines: Lines, sent: u32, heard: Heard) {
        let store = Arc::clone(self);
        let pause = self.settings.resend_pause.saturating_mul(1 << sent.min(16));
        self.runtime.spawn(async move {
            sleep(pause).await;
            store.send_in_background(slot, lines, sent + 1, heard);
        });
    }
}

fn may_send_again(answered: &Answered) -> bool {
    match answered {
        Ok(_) => false,
        // It would fail again.
        Err(Trouble { cause, .. }) if cause.is_of_a_key() => false,
        Err(Trouble { executed, .. }) => *executed == Executed::No,
    }
}
