use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::transport::Cause;
use crate::wire::cluster::node_clock::NodeClock;
use crate::wire::connection::access::{Access, Connected};
use crate::wire::connection::address::Address;
use crate::wire::connection::backoff::Backoff;
use crate::wire::connection::call_queue::{CallQueue, State};
use crate::wire::connection::driver::{Driver, End};

/// How long calls wait for a connection that is just being made.
const GRACE: Duration = Duration::from_millis(100);
/// How often it is seen to that none of them waits beyond its deadline.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A connection that was lost sooner was no success: the next attempt waits.
const LASTED: Duration = Duration::from_secs(1);

/// How a link is kept.
#[derive(Clone)]
pub(crate) struct LinkTerms {
    pub(crate) access: Arc<Access>,
    pub(crate) silence: Duration,
    pub(crate) calls: usize,
    /// Told whenever a connection is lost or cannot be made.
    pub(crate) on_trouble: Arc<Notify>,
}

/// Keeps one connection to a server, made again whenever it is lost, until the queue that it returns is closed.
pub(crate) fn keep_connected(
    runtime: &Handle,
    address: Address,
    terms: LinkTerms,
    clock: Arc<NodeClock>,
) -> Arc<CallQueue> {
    let queue = Arc::new(CallQueue::new(terms.calls));
    let link = Link { queue: Arc::clone(&queue), address, terms, clock, backoff: Backoff::default() };
    runtime.spawn(link.run());
    queue
}

struct Link {
    queue: Arc<CallQueue>,
    address: Address,
    terms: LinkTerms,
    clock: Arc<NodeClock>,
    backoff: Backoff,
}

impl Link {
    async fn run(mut self) {
        while !self.queue.is_closed() {
            match self.connect().await {
                Some(Ok(connected)) => self.serve(connected).await,
                Some(Err(cause)) => self.wait(cause).await,
                None => {}
            }
        }
        self.queue.set_down(Cause::Connection);
    }

    async fn serve(&mut self, connected: Connected) {
        let Connected { stream, clock } = connected;
        // Before the first call, so that every call can carry an expiry.
        clock.into_iter().for_each(|reading| self.clock.observe(reading));
        let begun = Instant::now();
        self.queue.set(State::Up);
        let end = Driver::new(stream, &self.queue, self.terms.silence).run().await;
        if let End::Lost(cause) = end {
            if begun.elapsed() >= LASTED {
                self.backoff.reset();
                self.queue.set(State::Connecting);
                self.terms.on_trouble.notify_one();
            } else {
                self.wait(cause).await;
            }
        }
    }

    async fn wait(&mut self, cause: Cause) {
        self.queue.set_down(cause);
        self.terms.on_trouble.notify_one();
        let pause = self.backoff.next();
        tokio::select! {
            () = sleep(pause) => {}
            () = self.queue.until_closed() => {}
        }
    }

    /// Connects, while those that wait are told when their time has passed. Nothing if nobody needs it any more.
    async fn connect(&self) -> Option<Result<Connected, Cause>> {
        let begun = Instant::now();
        let mut connected = pin!(self.terms.access.connect(&self.address));
        let mut is_in_grace = true;
        loop {
            tokio::select! {
                connected = &mut connected => return Some(connected),
                () = self.queue.until_closed() => return None,
                () = sleep(LOOK_EVERY), if is_in_grace => {
                    self.queue.expire(Instant::now());
                    if begun.elapsed() >= GRACE {
                        is_in_grace = false;
                        self.queue.set_down(Cause::Connection);
                    }
                }
            }
        }
    }
}
