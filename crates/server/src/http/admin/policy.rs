//! `GET /api/policy`: the file of the active policy and the recent reloads.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::AdminState;
use crate::observe::Timestamp;
use crate::policy_source::{PolicyText, ReloadOutcome};

const S_NS: u64 = 1_000_000_000;

#[derive(Serialize)]
pub(super) struct PolicyBody {
    /// Null if the program that embeds the service names no file.
    file: Option<String>,
    /// The text without credentials; null if it is unknown or withheld.
    text: Option<String>,
    /// Whether the end of the text is missing.
    text_cut: bool,
    /// Whether the text has credentials in a form that cannot be hidden.
    text_withheld: bool,
    fingerprint: String,
    rules: usize,
    loaded_at: Timestamp,
    can_reload: bool,
    reloads: Vec<ReloadOutcomeBody>,
}

#[derive(Serialize)]
struct ReloadOutcomeBody {
    time: Timestamp,
    done: bool,
    message: String,
}

pub(super) async fn policy(State(admin): State<AdminState>) -> Json<PolicyBody> {
    let engine = &admin.engine;
    let history = engine.policy_history().state();
    let source = history.source.as_deref();
    let text = source.map(|source| &source.text);
    Json(PolicyBody {
        file: source.map(|source| source.name.clone()),
        text: text.and_then(|text| match text {
            PolicyText::Shown { text, .. } => Some(text.clone()),
            PolicyText::Withheld => None,
        }),
        text_cut: matches!(text, Some(PolicyText::Shown { is_cut: true, .. })),
        text_withheld: matches!(text, Some(PolicyText::Withheld)),
        fingerprint: engine.with_fingerprint(str::to_owned),
        rules: engine.limiter().policy().rules().len(),
        loaded_at: Timestamp(engine.policy_loaded_at_s() * S_NS),
        can_reload: admin.reloads.is_some(),
        reloads: history.outcomes.into_iter().map(ReloadOutcomeBody::from).collect(),
    })
}

impl From<ReloadOutcome> for ReloadOutcomeBody {
    fn from(outcome: ReloadOutcome) -> ReloadOutcomeBody {
        ReloadOutcomeBody { time: outcome.time, done: outcome.done, message: outcome.message }
    }
}
