use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use tokio::sync::oneshot;

use super::AdminState;
use crate::http::connection::HttpCaller;
use crate::http::problem::ProblemDetails;
use crate::observe::ChangeKind;

/// A request to reload the policy, which waits for the result.
#[derive(Debug)]
pub struct ReloadRequest {
    sender: oneshot::Sender<Result<String, String>>,
}

impl ReloadRequest {
    /// Returns the result to the caller: a summary of the active policy, or why the old one stays active.
    pub fn answer(self, outcome: Result<String, String>) {
        // The caller may have disconnected.
        let _ = self.sender.send(outcome);
    }
}

#[derive(Serialize)]
pub(super) struct ReloadedBody {
    reloaded: bool,
    message: String,
}

/// `POST /api/reload`: reloads the policy, as SIGHUP does.
pub(super) async fn reload(
    State(admin): State<AdminState>,
    Extension(caller): Extension<Arc<HttpCaller>>,
) -> Result<Json<ReloadedBody>, ProblemDetails> {
    let outcome = request_reload(&admin).await;
    admin.note(&caller, ChangeKind::Reload, None, None, &outcome);
    outcome.map(|message| Json(ReloadedBody { reloaded: true, message }))
}

async fn request_reload(admin: &AdminState) -> Result<String, ProblemDetails> {
    let requests = admin.reloads.as_ref().ok_or_else(ProblemDetails::nothing_to_reload)?;
    let (sender, outcome) = oneshot::channel();
    requests.send(ReloadRequest { sender }).await.map_err(|_| ProblemDetails::nothing_to_reload())?;
    match outcome.await {
        Ok(Ok(message)) => Ok(message),
        Ok(Err(cause)) => Err(ProblemDetails::not_reloaded(&cause)),
        Err(_) => Err(ProblemDetails::nothing_to_reload()),
    }
}
