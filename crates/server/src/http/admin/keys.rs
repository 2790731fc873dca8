//! An operator's hand on single keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use serde_json::{Value, json};
use tollgate::KeyOverride;
use tollgate::policy::parse_duration;

use super::Admin;
use super::key_body::{KeyBody, OverrideBody};
use super::key_name::KeyName;
use crate::http::connection::Caller;
use crate::http::problem::Problem;
use crate::http::strict_json::Members;
use crate::observe::{Change, ChangeKind};

const KEYS: &str = "/api/keys/";
const OVERRIDES: &str = "/api/overrides/";

/// A limit and how long it lasts.
const MAX_OVERRIDE_BYTES: usize = 4 << 10;

/// What a caller may say of an override.
const OVERRIDE_MEMBERS: [&str; 2] = ["limit", "for"];

/// What `for` must be. What is shorter or longer is no duration of a policy either.
const LASTS: &str = "how long it lasts, from 1ms to 36year, such as \"10min\" or \"1day\"";

/// `GET /api/keys/RULE/KEY`: how a key stands. Nothing is charged.
pub(super) async fn inspect(State(admin): State<Admin>, uri: Uri) -> Result<Json<KeyBody>, Problem> {
    let name = KeyName::behind(KEYS, &uri)?;
    let report = admin.engine.limiter().inspect_key(&name.rule, &name.key).await?;
    let client = admin.engine.observer().client_name(report.key.as_bytes());
    Ok(Json(KeyBody::new(&report, &client)))
}

/// `DELETE /api/keys/RULE/KEY`: the key is as if untouched.
pub(super) async fn reset(
    State(admin): State<Admin>,
    Extension(caller): Extension<Arc<Caller>>,
    uri: Uri,
) -> Result<Json<Value>, Problem> {
    let name = KeyName::behind(KEYS, &uri);
    let outcome = match &name {
        Ok(name) => admin.engine.limiter().reset_key(&name.rule, &name.key).await.map_err(Problem::from),
        Err(unread) => Err(unread.clone()),
    };
    admin.note(&caller, ChangeKind::Reset, name.as_ref().ok(), None, &outcome);
    outcome.map(|()| Json(json!({ "done": true })))
}

/// `PUT /api/keys/RULE/KEY`: another limit for this key, for a time.
pub(super) async fn set(
    State(admin): State<Admin>,
    Extension(caller): Extension<Arc<Caller>>,
    uri: Uri,
    body: Body,
) -> Result<Json<OverrideBody>, Problem> {
    let name = KeyName::behind(KEYS, &uri);
    let mut limit = None;
    let outcome = match &name {
        Ok(name) => set_limit(&admin, &caller, name, body, &mut limit).await,
        Err(unread) => Err(unread.clone()),
    };
    admin.note(&caller, ChangeKind::Override, name.as_ref().ok(), limit.as_deref(), &outcome);
    outcome.map(|set| Json(OverrideBody::from(&set)))
}

/// `told` becomes the limit that the caller wants, once it is read: a try is written down with it.
async fn set_limit(
    admin: &Admin,
    caller: &Caller,
    name: &KeyName,
    body: Body,
    told: &mut Option<String>,
) -> Result<KeyOverride, Problem> {
    let members = Members::parse(&caller.read_body(body, MAX_OVERRIDE_BYTES).await?, &OVERRIDE_MEMBERS)?;
    let limit = members.get("limit").and_then(Value::as_str);
    let limit = limit.ok_or_else(|| Problem::bad_member("limit", "a limit such as \"200/min\" or \"unlimited\""))?;
    *told = Some(limit.to_owned());
    let lasts = members.get("for").and_then(Value::as_str).and_then(|text| parse_duration(text).ok());
    let lasts = lasts.ok_or_else(|| Problem::bad_member("for", LASTS))?;
    let lasts = Duration::from_nanos(lasts);
    Ok(admin.engine.limiter().override_key(&name.rule, &name.key, limit, lasts).await?)
}

/// `GET /api/overrides`: the limits that stand by hand.
pub(super) async fn overrides(State(admin): State<Admin>) -> impl IntoResponse {
    let standing = admin.engine.limiter().key_overrides();
    let overrides: Vec<OverrideBody> = standing.iter().map(OverrideBody::from).collect();
    Json(HashMap::from([("overrides", overrides)]))
}

/// `DELETE /api/overrides/RULE/KEY`: the policy's limit holds again.
pub(super) async fn end_override(
    State(admin): State<Admin>,
    Extension(caller): Extension<Arc<Caller>>,
    uri: Uri,
) -> Result<Json<Value>, Problem> {
    let name = KeyName::behind(OVERRIDES, &uri);
    let outcome = match &name {
        Ok(name) => match admin.engine.limiter().end_override(&name.rule, &name.key).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Problem::no_override()),
            Err(error) => Err(error.into()),
        },
        Err(unread) => Err(unread.clone()),
    };
    admin.note(&caller, ChangeKind::EndOverride, name.as_ref().ok(), None, &outcome);
    outcome.map(|()| Json(json!({ "done": true })))
}

impl Admin {
    /// Writes down who changed what, and whether it was done.
    pub(super) fn note<T>(
        &self,
        caller: &Caller,
        kind: ChangeKind,
        name: Option<&KeyName>,
        limit: Option<&str>,
        outcome: &Result<T, Problem>,
    ) {
        let observer = self.engine.observer();
        let plan = self.engine.limiter().policy();
        let is_known = |rule: &&String| plan.rule_named(rule).is_some();
        // The key that was meant, so that the client goes by the same name as in every other line.
        let key = |name: &KeyName| {
            let meant = plan.rule_named(&name.rule).and_then(|rule| plan.read_key(rule, &name.key).ok());
            // What is no key may still have a credential in it.
            meant.or_else(|| plan.secrets_fingerprint().is_none().then(|| name.key.clone()))
        };
        observer.note_change(Change {
            time: observer.now(),
            change: kind,
            // What is no rule may be anything, a client's name too.
            rule: name.map(|name| &name.rule).filter(is_known).cloned(),
            client: name.and_then(key).map(|key| observer.client_name(key.as_bytes())),
            limit: limit.map(str::to_owned),
            done: outcome.is_ok(),
            from: caller.address,
        });
    }
}
