//! Computes the status once a second for all subscribers, while there are any.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::sampler::RateSampler;
use super::status_body::{StatusBody, history_body};
use super::store_body::StoreLosses;
use crate::engine::Engine;

/// The interval of the stream.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long the status is computed without subscribers: a page that is loaded again keeps its history.
const IDLE_INTERVALS: u32 = 5;

/// The latest status, shared by all subscribers.
#[derive(Clone, Debug)]
pub(crate) struct LivePublisher(Arc<PublisherState>);

#[derive(Debug)]
struct PublisherState {
    engine: Arc<Engine>,
    started_ns: u64,
    latest: watch::Sender<Option<Arc<LiveFrame>>>,
    /// Whether the task runs that computes the status.
    is_running: Mutex<bool>,
}

/// One status, serialized once for all subscribers.
#[derive(Debug)]
pub(super) struct LiveFrame {
    /// The number of the reading since the publisher was idle, from 1.
    pub(super) number: u64,
    /// The JSON.
    pub(super) json: Bytes,
    /// The server-sent event with this JSON.
    pub(super) event: Bytes,
    /// The server-sent event with the history up to this status, for new subscribers.
    pub(super) history: Bytes,
}

impl LivePublisher {
    pub(in crate::http::admin) fn new(engine: Arc<Engine>) -> LivePublisher {
        let started_ns = engine.observer().now().0;
        let latest = watch::Sender::new(None);
        LivePublisher(Arc::new(PublisherState { engine, started_ns, latest, is_running: Mutex::new(false) }))
    }

    /// Subscribes to the status. The first subscriber starts the task.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Arc<LiveFrame>>> {
        let mut is_running = self.0.is_running.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.0.latest.subscribe();
        if !std::mem::replace(&mut *is_running, true) {
            tokio::spawn(self.clone().run());
        }
        receiver
    }

    async fn run(self) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sampler = RateSampler::default();
        let mut losses = StoreLosses::default();
        let (mut number, mut idle) = (0, 0);
        loop {
            ticks.tick().await;
            idle = if self.0.latest.receiver_count() == 0 { idle + 1 } else { 0 };
            if idle > IDLE_INTERVALS && self.stop() {
                return;
            }
            number += 1;
            let frame = self.frame(number, &mut sampler, &mut losses);
            self.0.latest.send_replace(Some(Arc::new(frame)));
        }
    }

    /// Ends the task, unless a subscriber came meanwhile. The next one must not get an old status.
    fn stop(&self) -> bool {
        let mut is_running = self.0.is_running.lock().unwrap_or_else(PoisonError::into_inner);
        if self.0.latest.receiver_count() > 0 {
            return false;
        }
        self.0.latest.send_replace(None);
        *is_running = false;
        true
    }

    fn frame(&self, number: u64, sampler: &mut RateSampler, losses: &mut StoreLosses) -> LiveFrame {
        let PublisherState { engine, started_ns, latest, .. } = &*self.0;
        let now = StoreLosses::of(engine);
        let before = if number == 1 { now } else { *losses };
        *losses = now;
        let rates = sampler.add(engine.now_ns(), engine.counts());
        let status = StatusBody::new(engine, &rates, before, *started_ns, latest.receiver_count());
        let json = Bytes::from(serde_json::to_vec(&status).unwrap_or_default());
        LiveFrame {
            number,
            event: event("status", &json),
            history: event("history", &serde_json::to_vec(&history_body(&sampler.history)).unwrap_or_default()),
            json,
        }
    }
}

/// Formats a server-sent event. JSON without indentation has no line ends.
fn event(name: &str, json: &[u8]) -> Bytes {
    [format!("event: {name}\ndata: ").as_bytes(), json, b"\n\n"].concat().into()
}
