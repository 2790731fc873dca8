use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use tokio::sync::oneshot;

use super::Admin;
use crate::http::connection::Caller;
use crate::http::problem::Problem;
use crate::observe::ChangeKind;

/// Somebody wants the policy to be read again, and waits to hear how it went.
#[derive(Debug)]
pub struct ReloadRequest {
    answer: oneshot::Sender<Result<String, String>>,
}

impl ReloadRequest {
    /// Says how it went, in words: what is in force now, or why the old policy still is.
    pub fn answer(self, outcome: Result<String, String>) {
        // Who asked may have gone away.
        let _ = self.answer.send(outcome);
    }
}

#[derive(Serialize)]
pub(super) struct ReloadedBody {
    reloaded: bool,
    message: String,
}

/// `POST /api/reload`: reads the policy again, as SIGHUP does.
pub(super) async fn reload(
    State(admin): State<Admin>,
    Extension(caller): Extension<Arc<Caller>>,
) -> Result<Json<ReloadedBody>, Problem> {
    let outcome = ask(&admin).await;
    admin.note(&caller, ChangeKind::Reload, None, None, &outcome);
    outcome.map(|message| Json(ReloadedBody { reloaded: true, message }))
}

async fn ask(admin: &Admin) -> Result<String, Problem> {
    let requests = admin.reloads.as_ref().ok_or_else(Problem::nothing_to_reload)?;
    let (answer, answered) = oneshot::channel();
    requests.send(ReloadRequest { answer }).await.map_err(|_| Problem::nothing_to_reload())?;
    match answered.await {
        Ok(Ok(message)) => Ok(message),
        Ok(Err(why)) => Err(Problem::not_reloaded(&why)),
        Err(_) => Err(Problem::nothing_to_reload()),
    }
}
