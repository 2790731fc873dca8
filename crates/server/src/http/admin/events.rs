//! `GET /api/events`: what happens, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as ServerSent, KeepAlive, Sse};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;

use super::Admin;
use crate::http::problem::Problem;
use crate::observe::{Delivery, Event, Subscription};

/// How many may listen at once. Each costs a copy of every event.
pub(super) const LISTENERS: usize = 32;

/// How many events may be on the way to one who listens. Beyond them it lags behind, and is told what it lost.
const ON_THE_WAY: usize = 16;

/// So that what stands between knows that the connection is alive.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

type Sent = mpsc::Sender<Result<ServerSent, Infallible>>;

/// The latest events, and then each as it happens. It ends when the service does.
pub(super) async fn events(
    State(admin): State<Admin>,
) -> Result<Sse<impl Stream<Item = Result<ServerSent, Infallible>>>, Problem> {
    let place = Arc::clone(&admin.listeners).try_acquire_owned().map_err(|_| Problem::too_many_listeners(LISTENERS))?;
    let observer = admin.engine.observer();
    // In this order: what happens in between is in both, and told once.
    let subscription = observer.subscribe();
    let recent = observer.recent_events();
    let (sent, receiver) = mpsc::channel(ON_THE_WAY);
    tokio::spawn(tell(recent, subscription, sent, admin.stopped.clone(), place));
    Ok(Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::new().interval(SIGN_OF_LIFE)))
}

async fn tell(
    recent: Vec<Arc<Event>>,
    mut subscription: Subscription,
    sent: Sent,
    mut stopped: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
) {
    for event in &recent {
        if sent.send(Ok(written(event))).await.is_err() {
            return;
        }
    }
    loop {
        let delivery = tokio::select! {
            delivery = subscription.next() => delivery,
            _ = stopped.wait_for(|stopped| *stopped) => return,
            () = sent.closed() => return,
        };
        let line = match delivery {
            None => return,
            Some(Delivery::Event(event)) if recent.iter().any(|known| Arc::ptr_eq(known, &event)) => continue,
            Some(Delivery::Event(event)) => written(&event),
            Some(Delivery::Lost(count)) => ServerSent::default().event("lost").data(format!("{{\"events\":{count}}}")),
        };
        if sent.send(Ok(line)).await.is_err() {
            return;
        }
    }
}

fn written(event: &Event) -> ServerSent {
    ServerSent::default().event(event.name()).data(event.to_json())
}
