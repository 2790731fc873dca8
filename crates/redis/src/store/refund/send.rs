//! Sends calls that no check waits for: refunds, credits, settlements, renewals and resets.

use std::sync::Arc;

use tokio::time::{Instant, sleep};

use crate::call::{Call, ScriptOps};
use crate::store::Inner;
use crate::transport::{CallError, CallResult, Done, Executed, Slot};

/// The callback for the result of a background call.
type OnReply = Box<dyn FnOnce(&Arc<Inner>, CallResult) + Send>;

impl Inner {
    /// Sends operations that may free capacity: refunds, credits, settlements or resets. The cached refusals of their
    /// keys are dropped when the call is sent, and again when its result arrives: a check in between may have been
    /// refused, and its refusal cached, before the call was executed.
    pub(in crate::store) fn send_adjustment(
        self: &Arc<Self>,
        slot: Slot,
        ops: ScriptOps,
        keys: Vec<Box<[u8]>>,
        on_reply: impl FnOnce(&Arc<Inner>, CallResult) + Send + 'static,
    ) {
        self.drop_cached_refusals(&keys);
        let on_reply = move |store: &Arc<Inner>, answered: CallResult| {
            store.drop_cached_refusals(&keys);
            if matches!(answered, Err(CallError { executed: Executed::Unknown, .. })) {
                store.counters.lost_refunds.add(1);
            }
            on_reply(store, answered);
        };
        self.send_in_background(slot, ops, Box::new(on_reply));
    }

    fn drop_cached_refusals(&self, keys: &[Box<[u8]>]) {
        let now = Instant::now();
        for key in self.fault_points.keys_to_drop(keys) {
            self.refusals.remove(key, now);
            self.leases.forget_refusals(key);
        }
    }

    /// Sends a call, and resends it a few times if it was certainly not executed.
    pub(in crate::store) fn send_in_background(self: &Arc<Self>, slot: Slot, ops: ScriptOps, on_reply: OnReply) {
        self.send_attempt(slot, ops, 0, on_reply);
    }

    /// `resent` is the number of resends so far.
    fn send_attempt(self: &Arc<Self>, slot: Slot, ops: ScriptOps, resent: u32, on_reply: OnReply) {
        let (store, retry) = (Arc::clone(self), ops.clone());
        let done = Done::new(move |answered| {
            if resent < store.settings.resends && may_resend(&answered) {
                return store.resend_later(slot, retry, resent, on_reply);
            }
            on_reply(&store, answered);
        });
        let deadline = Instant::now() + self.settings.background_deadline;
        self.transmit(slot, Call { ops }, deadline, done);
    }

    fn resend_later(self: &Arc<Self>, slot: Slot, ops: ScriptOps, resent: u32, on_reply: OnReply) {
        let store = Arc::clone(self);
        let pause = self.settings.resend_pause.saturating_mul(1 << resent.min(16));
        self.runtime.spawn(async move {
            sleep(pause).await;
            store.send_attempt(slot, ops, resent + 1, on_reply);
        });
    }
}

fn may_resend(answered: &CallResult) -> bool {
    match answered {
        Ok(_) => false,
        Err(CallError { cause, .. }) if cause.concerns_the_call() => false,
        Err(CallError { executed, .. }) => *executed == Executed::No,
    }
}
