//! `GET /api/events`: events as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as ServerSent, KeepAlive, Sse};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;

use super::AdminState;
use crate::http::problem::ProblemDetails;
use crate::observe::{Delivery, Event, EventSubscription};

/// The maximum number of subscribers. Each receives a copy of every event.
pub(super) const MAX_SUBSCRIBERS: usize = 32;

/// The events buffered for one subscriber. A slower subscriber loses events, and receives their number.
const MAX_BUFFERED_EVENTS: usize = 16;

/// Keeps the connection alive through proxies.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

type EventSender = mpsc::Sender<Result<ServerSent, Infallible>>;

/// Streams the recent events, then each new one, until the service stops.
pub(super) async fn events(
    State(admin): State<AdminState>,
) -> Result<Sse<impl Stream<Item = Result<ServerSent, Infallible>>>, ProblemDetails> {
    let slot = Arc::clone(&admin.subscribers)
        .try_acquire_owned()
        .map_err(|_| ProblemDetails::too_many_subscribers(MAX_SUBSCRIBERS))?;
    let observer = admin.engine.observer();
    // In this order: an event in between is in both, and sent once.
    let subscription = observer.subscribe();
    let recent = observer.recent_events();
    let (sender, receiver) = mpsc::channel(MAX_BUFFERED_EVENTS);
    tokio::spawn(send_events(recent, subscription, sender, admin.stopped.clone(), slot));
    Ok(Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL)))
}

async fn send_events(
    recent: Vec<Arc<Event>>,
    mut subscription: EventSubscription,
    sender: EventSender,
    mut stopped: watch::Receiver<bool>,
    _slot: OwnedSemaphorePermit,
) {
    for event in &recent {
        if sender.send(Ok(server_sent(event))).await.is_err() {
            return;
        }
    }
    loop {
        let delivery = tokio::select! {
            delivery = subscription.next() => delivery,
            _ = stopped.wait_for(|stopped| *stopped) => return,
            () = sender.closed() => return,
        };
        let line = match delivery {
            None => return,
            Some(Delivery::Event(event)) if recent.iter().any(|known| Arc::ptr_eq(known, &event)) => continue,
            Some(Delivery::Event(event)) => server_sent(&event),
            Some(Delivery::Lost(count)) => ServerSent::default().event("lost").data(format!("{{\"events\":{count}}}")),
        };
        if sender.send(Ok(line)).await.is_err() {
            return;
        }
    }
}

fn server_sent(event: &Event) -> ServerSent {
    ServerSent::default().event(event.name()).data(event.to_json())
}
