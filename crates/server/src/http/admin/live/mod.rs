//! `GET /api/live` and `GET /api/status`: the state of the service, as a stream and once.

mod publisher;
mod sampler;
mod status_body;
mod store_body;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;

use super::AdminState;
use crate::http::problem::ProblemDetails;
use publisher::LiveFrame;
pub(crate) use publisher::LivePublisher;

/// The most subscribers of the live stream.
pub(super) const MAX_LIVE_SUBSCRIBERS: usize = 48;

/// The first reading has no rates, so a single status waits for the second.
const MEASURED_FROM: u64 = 2;

/// How long a single status waits for rates.
const STATUS_TIMEOUT: Duration = Duration::from_secs(3);

type FrameReceiver = watch::Receiver<Option<Arc<LiveFrame>>>;

/// `GET /api/live`: the history, then the status once a second, as server-sent events, until the service stops.
pub(super) async fn live(State(admin): State<AdminState>) -> Response {
    let slot = Arc::clone(&admin.live_subscribers)
        .try_acquire_owned()
        .map_err(|_| ProblemDetails::too_many_subscribers(MAX_LIVE_SUBSCRIBERS));
    let slot = match slot {
        Ok(slot) => slot,
        Err(problem) => return refused(problem),
    };
    let frames = admin.live.subscribe();
    // A subscriber that reads too slowly misses a status, and gets the latest one.
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(send_frames(frames, sender, admin.stopped.clone(), slot));
    let mut response = Body::from_stream(ReceiverStream::new(receiver)).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

/// Refuses a subscriber, and closes its connection: refused ones must not use up the connections of the listener.
fn refused(problem: ProblemDetails) -> Response {
    let mut response = problem.into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// `GET /api/status`: the status, once it has rates.
pub(super) async fn status(State(admin): State<AdminState>) -> Response {
    let mut frames = admin.live.subscribe();
    let is_measured =
        |frame: &Option<Arc<LiveFrame>>| frame.as_ref().is_some_and(|frame| frame.number >= MEASURED_FROM);
    // The last status has no rates if the machine is too busy for a second one.
    let _ = timeout(STATUS_TIMEOUT, frames.wait_for(is_measured)).await;
    let frame = frames.borrow().clone();
    let json = frame.map_or_else(Bytes::new, |frame| frame.json.clone());
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

async fn send_frames(
    mut frames: FrameReceiver,
    sender: mpsc::Sender<Result<Bytes, Infallible>>,
    mut stopped: watch::Receiver<bool>,
    _slot: OwnedSemaphorePermit,
) {
    let mut is_first = true;
    // The latest status counts as new.
    frames.mark_changed();
    loop {
        tokio::select! {
            changed = frames.changed() => if changed.is_err() { return },
            _ = stopped.wait_for(|stopped| *stopped) => return,
            () = sender.closed() => return,
        }
        let Some(frame) = frames.borrow_and_update().clone() else { continue };
        if std::mem::take(&mut is_first) && sender.send(Ok(frame.history.clone())).await.is_err() {
            return;
        }
        if sender.send(Ok(frame.event.clone())).await.is_err() {
            return;
        }
    }
}
