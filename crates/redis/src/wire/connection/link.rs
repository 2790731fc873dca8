use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::transport::Cause;
use crate::wire::cluster::node_clock::NodeClock;
use crate::wire::connection::address::Address;
use crate::wire::connection::backoff::Backoff;
use crate::wire::connection::call_queue::{CallQueue, State};
use crate::wire::connection::connect_params::{ConnectParams, Connected};
use crate::wire::connection::driver::{Driver, End};

/// How long calls wait for a connection that is being established.
const CONNECT_GRACE: Duration = Duration::from_millis(100);
/// The interval at which waiting calls are checked against their deadlines.
const EXPIRY_INTERVAL: Duration = Duration::from_millis(5);
/// A connection that is lost sooner counts as a failed attempt: the next one waits.
const MIN_LIFETIME: Duration = Duration::from_secs(1);

/// The settings of a link.
#[derive(Clone)]
pub(crate) struct LinkSettings {
    pub(crate) connect: Arc<ConnectParams>,
    pub(crate) reply_timeout: Duration,
    /// The maximum number of calls waiting or in flight.
    pub(crate) max_calls: usize,
    /// Notified whenever a connection is lost or cannot be established.
    pub(crate) on_failure: Arc<Notify>,
}

/// Keeps one connection to a server open, and reconnects whenever it is lost, until the returned queue is closed.
pub(crate) fn keep_connected(
    runtime: &Handle,
    address: Address,
    settings: LinkSettings,
    clock: Arc<NodeClock>,
) -> Arc<CallQueue> {
    let queue = Arc::new(CallQueue::new(settings.max_calls));
    let link = Link { queue: Arc::clone(&queue), address, settings, clock, backoff: Backoff::default() };
    runtime.spawn(link.run());
    queue
}

struct Link {
    queue: Arc<CallQueue>,
    address: Address,
    settings: LinkSettings,
    clock: Arc<NodeClock>,
    backoff: Backoff,
}

impl Link {
    async fn run(mut self) {
        while !self.queue.is_closed() {
            match self.connect().await {
                Some(Ok(connected)) => self.serve(connected).await,
                Some(Err(cause)) => self.wait_after(cause).await,
                None => {}
            }
        }
        self.queue.set_down(Cause::Connection);
    }

    async fn serve(&mut self, connected: Connected) {
        let Connected { stream, clock } = connected;
        // Before the first call, so that every call can have an expiry.
        clock.into_iter().for_each(|reading| self.clock.observe(reading));
        let begun = Instant::now();
        self.queue.set_state(State::Up);
        let end = Driver::new(stream, &self.queue, self.settings.reply_timeout).run().await;
        if let End::Lost(cause) = end {
            if begun.elapsed() >= MIN_LIFETIME {
                self.backoff.reset();
                self.queue.set_state(State::Connecting);
                self.settings.on_failure.notify_one();
            } else {
                self.wait_after(cause).await;
            }
        }
    }

    /// Fails calls for the backoff's pause.
    async fn wait_after(&mut self, cause: Cause) {
        self.queue.set_down(cause);
        self.settings.on_failure.notify_one();
        let pause = self.backoff.next();
        tokio::select! {
            () = sleep(pause) => {}
            () = self.queue.until_closed() => {}
        }
    }

    /// Connects, and meanwhile fails waiting calls at their deadlines. `None` if the queue was closed.
    async fn connect(&self) -> Option<Result<Connected, Cause>> {
        let begun = Instant::now();
        let mut connected = pin!(self.settings.connect.connect(&self.address));
        let mut is_in_grace = true;
        loop {
            tokio::select! {
                connected = &mut connected => return Some(connected),
                () = self.queue.until_closed() => return None,
                () = sleep(EXPIRY_INTERVAL), if is_in_grace => {
                    self.queue.expire(Instant::now());
                    if begun.elapsed() >= CONNECT_GRACE {
                        is_in_grace = false;
                        self.queue.set_down(Cause::Connection);
                    }
                }
            }
        }
    }
}
