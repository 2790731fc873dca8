//! `/v1/forward-auth`: a gateway asks about a request before it forwards it.

mod described;

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use tollgate::{INVALID_TOKEN, PROBLEM_JSON, Permit, Verdict};

use super::connection::Caller;
use super::problem::Problem;
use super::routes::TOKEN_PARAMETER;
use crate::engine::Engine;
use crate::front_end::FrontEnd;
use described::{HeaderLines, described};

/// What was meant, where another status was asked for: a gateway that knows few statuses can still tell its client.
const MEANT_STATUS: HeaderName = HeaderName::from_static("tollgate-status");

/// The body, for gateways that pass on fields of a refusal but not what it says.
const MEANT_PROBLEM: HeaderName = HeaderName::from_static("tollgate-problem");

/// Answers with a status that gateways understand, and with the fields that clients do.
pub(super) async fn forward_auth(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request<Body>,
) -> Result<Response<Body>, Problem> {
    // Whatever the body is, it says nothing about who asks.
    let (parts, _) = request.into_parts();
    let deny_status = deny_status(&parts)?;
    let headers = HeaderLines(&parts.headers);
    let request = described(&parts, &headers, caller.address, engine.trusts(caller.address))?;
    let (verdict, permit) = engine.admit_rates(FrontEnd::ForwardAuth, &request).await;
    wait_for_turn(verdict.delay(), permit).await;
    Ok(response(&verdict, deny_status))
}

/// Holds the answer until its turn has come. Who leaves before that gives the turn back.
async fn wait_for_turn(delay: Duration, permit: Option<Permit>) {
    if delay.is_zero() {
        return;
    }
    let mut turn = Turn(permit);
    tokio::time::sleep(delay).await;
    turn.0 = None;
}

/// A place in a queue that was not waited for to the end is refunded.
struct Turn(Option<Permit>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.refund();
        }
    }
}

/// The status that replaces that of every refusal: nginx, for one, knows no others than 401 and 403.
fn deny_status(parts: &Parts) -> Result<Option<StatusCode>, Problem> {
    let mut chosen = None;
    for parameter in parts.uri.query().unwrap_or_default().split('&').filter(|parameter| !parameter.is_empty()) {
        // Read by the gate, and never quoted.
        if parameter.starts_with(TOKEN_PARAMETER) {
            continue;
        }
        let Some(value) = parameter.strip_prefix("deny_status=") else {
            return Err(Problem::unknown_parameter(parameter));
        };
        let status = value.parse().ok().filter(|status| (400..600).contains(status));
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        chosen = Some(status.ok_or_else(|| Problem::bad_member("deny_status", "a status from 400 to 599"))?);
    }
    Ok(chosen)
}

fn response(verdict: &Verdict, deny_status: Option<StatusCode>) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    verdict.fields(|field, text| {
        // Names of rules are printable, and so are numbers.
        if let Ok(value) = HeaderValue::from_str(text) {
            response.headers_mut().insert(HeaderName::from_static(field.name()), value);
        }
    });
    if !verdict.is_allowed() {
        let told = StatusCode::from_u16(verdict.status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        let problem = verdict.problem_json();
        if let Some(status) = deny_status {
            *response.status_mut() = status;
            tell_what_was_meant(&mut response, told, &problem);
        } else {
            *response.status_mut() = told;
        }
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if verdict.is_unauthorized() {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(INVALID_TOKEN));
        }
        *response.body_mut() = Body::from(problem);
    }
    // Where the client stands now is old in a moment.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn tell_what_was_meant(response: &mut Response<Body>, status: StatusCode, problem: &str) {
    response.headers_mut().insert(MEANT_STATUS, HeaderValue::from(status.as_u16()));
    // Names of rules are printable, so that the problem is one line of text.
    if let Ok(problem) = HeaderValue::from_str(problem) {
        response.headers_mut().insert(MEANT_PROBLEM, problem);
    }
}
