use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::engine::Engine;
use crate::http::problem::ProblemDetails;
use crate::observe::{FrequentClient, Observer, Timestamp};

/// The default and the maximum number of listed clients.
const DEFAULT_COUNT: usize = 10;
const MAX_COUNT: usize = 100;

#[derive(Serialize)]
pub(super) struct TopBody {
    rules: Vec<RuleTopBody>,
}

#[derive(Serialize)]
struct RuleTopBody {
    rule: String,
    /// Refusals of all clients in the same period.
    refusals: u64,
    offenders: Vec<ClientBody>,
    near_limit: Vec<ClientBody>,
}

#[derive(Serialize)]
struct ClientBody {
    client: Arc<str>,
    /// The upper bound; `count - error` is the lower bound.
    count: u64,
    error: u64,
    last_seen: Timestamp,
}

/// `GET /api/top[?rule=NAME][&n=NUMBER]`: the clients that are refused most often, and those near a limit.
pub(super) async fn top(State(engine): State<Arc<Engine>>, uri: Uri) -> Result<Json<TopBody>, ProblemDetails> {
    let query = TopQuery::of(uri.query().unwrap_or_default())?;
    let policy = engine.limiter().policy();
    let rules = policy.rules().iter().map(|rule| &*rule.name);
    let rules: Vec<RuleTopBody> = rules
        .filter(|rule| query.rule.as_deref().is_none_or(|query| query == *rule))
        .map(|rule| RuleTopBody::new(engine.observer(), rule, query.count))
        .collect();
    match query.rule {
        Some(rule) if rules.is_empty() => Err(ProblemDetails::no_such_rule(&rule)),
        _ => Ok(Json(TopBody { rules })),
    }
}

struct TopQuery {
    rule: Option<String>,
    count: usize,
}

impl TopQuery {
    fn of(query: &str) -> Result<TopQuery, ProblemDetails> {
        let mut parsed = TopQuery { rule: None, count: DEFAULT_COUNT };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "rule" => {
                    let rule = super::keys::key_path::decoded(value);
                    parsed.rule =
                        Some(rule.ok_or_else(|| ProblemDetails::bad_path("`rule` must be percent-encoded UTF-8"))?);
                }
                "n" => {
                    let count = value.parse().ok().filter(|count| (1..=MAX_COUNT).contains(count));
                    parsed.count =
                        count.ok_or_else(|| ProblemDetails::bad_path("`n` must be a number from 1 to 100"))?;
                }
                _ => return Err(ProblemDetails::bad_path("the parameters are rule and n")),
            }
        }
        Ok(parsed)
    }
}

impl RuleTopBody {
    fn new(observer: &Observer, rule: &str, count: usize) -> RuleTopBody {
        RuleTopBody {
            rule: rule.to_owned(),
            refusals: observer.refusals(rule),
            offenders: observer.top(rule, count).iter().map(ClientBody::from).collect(),
            near_limit: observer.near_limit(rule, count).iter().map(ClientBody::from).collect(),
        }
    }
}

impl From<&FrequentClient> for ClientBody {
    fn from(known: &FrequentClient) -> ClientBody {
        ClientBody {
            client: Arc::clone(&known.client),
            count: known.count,
            error: known.error,
            last_seen: Timestamp(known.last_seen_ns),
        }
    }
}
