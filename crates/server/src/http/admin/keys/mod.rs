//! Inspecting, resetting and overriding single keys.

mod key_body;
pub(super) mod key_path;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use serde_json::{Value, json};
use tollgate::limiter::KeyOverride;
use tollgate::policy::parse_duration;

use super::AdminState;
use crate::http::connection::HttpCaller;
use crate::http::problem::ProblemDetails;
use crate::http::strict_json::BodyMembers;
use crate::observe::{AdminChange, ChangeKind};
use key_body::{KeyBody, OverrideBody};
use key_path::KeyPath;

const KEYS: &str = "/api/keys/";
const OVERRIDES: &str = "/api/overrides/";

/// The largest body of an override.
const MAX_OVERRIDE_BYTES: usize = 4 << 10;

/// The members of an override.
const OVERRIDE_MEMBERS: [&str; 2] = ["limit", "for"];

/// The expected value of `for`, the same as of durations in a policy.
const EXPECTED_DURATION: &str = "how long it lasts, from 1ms to 36year, such as \"10min\" or \"1day\"";

/// `GET /api/keys/RULE/KEY`: returns the state of a key. Nothing is charged.
pub(super) async fn inspect(State(admin): State<AdminState>, uri: Uri) -> Result<Json<KeyBody>, ProblemDetails> {
    let name = KeyPath::after(KEYS, &uri)?;
    let report = admin.engine.limiter().inspect_key(&name.rule, &name.key).await?;
    let client = admin.engine.observer().client_name(report.key.as_bytes());
    Ok(Json(KeyBody::new(&report, &client)))
}

/// `DELETE /api/keys/RULE/KEY`: resets a key.
pub(super) async fn reset(
    State(admin): State<AdminState>,
    Extension(caller): Extension<Arc<HttpCaller>>,
    uri: Uri,
) -> Result<Json<Value>, ProblemDetails> {
    let name = KeyPath::after(KEYS, &uri);
    let outcome = match &name {
        Ok(name) => admin.engine.limiter().reset_key(&name.rule, &name.key).await.map_err(ProblemDetails::from),
        Err(problem) => Err(problem.clone()),
    };
    admin.note(&caller, ChangeKind::Reset, name.as_ref().ok(), None, &outcome);
    outcome.map(|()| Json(json!({ "done": true })))
}

/// `PUT /api/keys/RULE/KEY`: overrides the limit of a key for a time.
pub(super) async fn set(
    State(admin): State<AdminState>,
    Extension(caller): Extension<Arc<HttpCaller>>,
    uri: Uri,
    body: Body,
) -> Result<Json<OverrideBody>, ProblemDetails> {
    let name = KeyPath::after(KEYS, &uri);
    let mut limit = None;
    let outcome = match &name {
        Ok(name) => set_limit(&admin, &caller, name, body, &mut limit).await,
        Err(problem) => Err(problem.clone()),
    };
    admin.note(&caller, ChangeKind::Override, name.as_ref().ok(), limit.as_deref(), &outcome);
    outcome.map(|set| Json(OverrideBody::from(&set)))
}

/// Sets an override. `requested` receives the requested limit once it is parsed: a failed attempt is logged with it.
async fn set_limit(
    admin: &AdminState,
    caller: &HttpCaller,
    name: &KeyPath,
    body: Body,
    requested: &mut Option<String>,
) -> Result<KeyOverride, ProblemDetails> {
    let members = BodyMembers::parse(&caller.read_body(body, MAX_OVERRIDE_BYTES).await?, &OVERRIDE_MEMBERS)?;
    let limit = members.get("limit").and_then(Value::as_str);
    let limit =
        limit.ok_or_else(|| ProblemDetails::bad_member("limit", "a limit such as \"200/min\" or \"unlimited\""))?;
    *requested = Some(limit.to_owned());
    let duration = members.get("for").and_then(Value::as_str).and_then(|text| parse_duration(text).ok());
    let duration = duration.ok_or_else(|| ProblemDetails::bad_member("for", EXPECTED_DURATION))?;
    let duration = Duration::from_nanos(duration);
    Ok(admin.engine.limiter().override_key(&name.rule, &name.key, limit, duration).await?)
}

/// `GET /api/overrides`: lists the overrides.
pub(super) async fn overrides(State(admin): State<AdminState>) -> impl IntoResponse {
    let active = admin.engine.limiter().key_overrides();
    let overrides: Vec<OverrideBody> = active.iter().map(OverrideBody::from).collect();
    Json(HashMap::from([("overrides", overrides)]))
}

/// `DELETE /api/overrides/RULE/KEY`: ends an override.
pub(super) async fn end_override(
    State(admin): State<AdminState>,
    Extension(caller): Extension<Arc<HttpCaller>>,
    uri: Uri,
) -> Result<Json<Value>, ProblemDetails> {
    let name = KeyPath::after(OVERRIDES, &uri);
    let outcome = match &name {
        Ok(name) => match admin.engine.limiter().end_override(&name.rule, &name.key).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(ProblemDetails::no_override()),
            Err(error) => Err(error.into()),
        },
        Err(problem) => Err(problem.clone()),
    };
    admin.note(&caller, ChangeKind::EndOverride, name.as_ref().ok(), None, &outcome);
    outcome.map(|()| Json(json!({ "done": true })))
}

impl AdminState {
    /// Logs a change and whether it succeeded.
    pub(super) fn note<T>(
        &self,
        caller: &HttpCaller,
        kind: ChangeKind,
        name: Option<&KeyPath>,
        limit: Option<&str>,
        outcome: &Result<T, ProblemDetails>,
    ) {
        let observer = self.engine.observer();
        let policy = self.engine.limiter().policy();
        let is_known = |rule: &&String| policy.counters_named(rule).is_some();
        // The key in its canonical form, so that the client has the same ID as in every other line.
        let key = |name: &KeyPath| {
            let canonical = policy.counters_named(&name.rule).and_then(|rule| policy.read_key(rule, &name.key).ok());
            // A text that is not a key may still contain a credential.
            canonical.or_else(|| policy.secrets_fingerprint().is_none().then(|| name.key.clone()))
        };
        observer.note_change(AdminChange {
            time: observer.now(),
            change: kind,
            // An unknown rule name may be any text, even the name of a client.
            rule: name.map(|name| &name.rule).filter(is_known).cloned(),
            client: name.and_then(key).map(|key| observer.client_name(key.as_bytes())),
            limit: limit.map(str::to_owned),
            done: outcome.is_ok(),
            from: caller.address,
        });
    }
}
