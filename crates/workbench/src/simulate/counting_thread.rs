//! A thread that counts decided requests, so that the thread that decides does not wait for the memory of the counters.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use super::counters::{ActionCounters, DecidedBatch};

/// The batches that may wait. If there are more, the deciding thread waits.
const WAITING_MAX: usize = 8;

/// Counts decided requests on another thread, which ends when this is dropped.
pub(super) struct CountingThread {
    batches: SyncSender<DecidedBatch>,
    /// Counted batches, for their memory.
    counted: Receiver<DecidedBatch>,
    thread: JoinHandle<ActionCounters>,
}

impl CountingThread {
    pub(super) fn start() -> CountingThread {
        let (batches, waiting) = sync_channel::<DecidedBatch>(WAITING_MAX);
        let (done, counted) = channel();
        let thread = std::thread::spawn(move || {
            let mut counters = ActionCounters::default();
            for mut batch in waiting {
                counters.count(&batch);
                batch.requests.clear();
                batch.refusals.clear();
                // When the simulation has ended, no memory is needed any more.
                let _ = done.send(batch);
            }
            counters
        });
        CountingThread { batches, counted, thread }
    }

    /// Counts a batch, and returns an empty one.
    pub(super) fn count(&self, batch: DecidedBatch) -> DecidedBatch {
        // It fails only if the thread has panicked, and `finish` continues the panic.
        let _ = self.batches.send(batch);
        self.counted.try_recv().unwrap_or_default()
    }

    /// Returns what was counted.
    pub(super) fn finish(self) -> ActionCounters {
        drop(self.batches);
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}
