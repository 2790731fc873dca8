use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::engine::Engine;
use crate::http::problem::Problem;
use crate::observe::{FrequentClient, Observer, Timestamp};

/// How many clients are listed unless somebody says otherwise, and at most.
const USUAL: usize = 10;
const MOST: usize = 100;

#[derive(Serialize)]
pub(super) struct TopBody {
    rules: Vec<RuleTopBody>,
}

#[derive(Serialize)]
struct RuleTopBody {
    rule: String,
    /// In the same time as the lists, whoever asked.
    refusals: u64,
    offenders: Vec<ClientBody>,
    near_limit: Vec<ClientBody>,
}

#[derive(Serialize)]
struct ClientBody {
    client: Arc<str>,
    /// The most that it can have been; `count - error` is certain.
    count: u64,
    error: u64,
    last_seen: Timestamp,
}

/// `GET /api/top[?rule=NAME][&n=NUMBER]`: who is refused most often, and who is near a limit.
pub(super) async fn top(State(engine): State<Arc<Engine>>, uri: Uri) -> Result<Json<TopBody>, Problem> {
    let wanted = Wanted::of(uri.query().unwrap_or_default())?;
    let plan = engine.limiter().policy();
    let rules = plan.rules().iter().map(|rule| &*rule.name);
    let rules: Vec<RuleTopBody> = rules
        .filter(|rule| wanted.rule.as_deref().is_none_or(|wanted| wanted == *rule))
        .map(|rule| RuleTopBody::new(engine.observer(), rule, wanted.count))
        .collect();
    match wanted.rule {
        Some(rule) if rules.is_empty() => Err(Problem::no_such_rule(&rule)),
        _ => Ok(Json(TopBody { rules })),
    }
}

struct Wanted {
    rule: Option<String>,
    count: usize,
}

impl Wanted {
    fn of(query: &str) -> Result<Wanted, Problem> {
        let mut wanted = Wanted { rule: None, count: USUAL };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "rule" => {
                    let rule = super::key_name::decoded(value);
                    wanted.rule = Some(rule.ok_or_else(|| Problem::bad_path("`rule` must be percent-encoded UTF-8"))?);
                }
                "n" => {
                    let count = value.parse().ok().filter(|count| (1..=MOST).contains(count));
                    wanted.count = count.ok_or_else(|| Problem::bad_path("`n` must be a number from 1 to 100"))?;
                }
                _ => return Err(Problem::bad_path("the parameters are rule and n")),
            }
        }
        Ok(wanted)
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
