//! `/v1/forward-auth`: decides a request for a gateway.

mod forwarded_request;

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use tollgate::fields::{INVALID_TOKEN, PROBLEM_JSON};
use tollgate::{Permit, Verdict};

use super::connection::HttpCaller;
use super::problem::ProblemDetails;
use super::routes::TOKEN_PARAMETER;
use crate::engine::Engine;
use crate::front_end::FrontEnd;
use forwarded_request::{HttpHeaders, describes_another_request, forwarded_request};

/// The original status if `deny_status` replaced it, for gateways that support few statuses.
const STATUS_FIELD: HeaderName = HeaderName::from_static("tollgate-status");

/// The original body, for gateways that forward fields of a refusal but not its body.
const PROBLEM_FIELD: HeaderName = HeaderName::from_static("tollgate-problem");

/// Responds with a status for the gateway and fields for the client.
pub(super) async fn forward_auth(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<HttpCaller>>,
    request: Request<Body>,
) -> Result<Response<Body>, ProblemDetails> {
    // The body is not needed to decide.
    let (parts, _) = request.into_parts();
    let deny_status = deny_status(&parts)?;
    let headers = HttpHeaders(&parts.headers);
    let is_trusted = engine.trusts(caller.address);
    if !is_trusted && describes_another_request(&parts.headers) {
        engine.observer().note_untrusted_gateway(caller.address);
    }
    let request = forwarded_request(&parts, &headers, caller.address, is_trusted)?;
    let (verdict, permit) = engine.permit_without_concurrency(FrontEnd::ForwardAuth, &request).await;
    delay_response(verdict.delay(), permit).await;
    Ok(response(&verdict, deny_status))
}

/// Delays the response. A client that disconnects earlier gets a refund.
async fn delay_response(delay: Duration, permit: Option<Permit>) {
    if delay.is_zero() {
        return;
    }
    let mut guard = DelayGuard(permit);
    tokio::time::sleep(delay).await;
    guard.0 = None;
}

/// Refunds a delayed request that was cancelled.
struct DelayGuard(Option<Permit>);

impl Drop for DelayGuard {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.refund();
        }
    }
}

/// Returns the status that replaces that of every refusal: nginx, for example, supports only 401 and 403.
fn deny_status(parts: &Parts) -> Result<Option<StatusCode>, ProblemDetails> {
    let mut replacement = None;
    for parameter in parts.uri.query().unwrap_or_default().split('&').filter(|parameter| !parameter.is_empty()) {
        // Read during authentication, and never quoted.
        if parameter.starts_with(TOKEN_PARAMETER) {
            continue;
        }
        let Some(value) = parameter.strip_prefix("deny_status=") else {
            let name = parameter.split('=').next().unwrap_or_default();
            return Err(ProblemDetails::unknown_parameter(name));
        };
        let status = value.parse().ok().filter(|status| (400..600).contains(status));
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        replacement =
            Some(status.ok_or_else(|| ProblemDetails::bad_member("deny_status", "a status from 400 to 599"))?);
    }
    Ok(replacement)
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
        let original = StatusCode::from_u16(verdict.status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        let problem = verdict.problem_json();
        if let Some(status) = deny_status {
            *response.status_mut() = status;
            add_original_refusal(&mut response, original, &problem);
        } else {
            *response.status_mut() = original;
        }
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if verdict.is_unauthorized() {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(INVALID_TOKEN));
        }
        *response.body_mut() = Body::from(problem);
    }
    // The state of the client changes with every request.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn add_original_refusal(response: &mut Response<Body>, status: StatusCode, problem: &str) {
    response.headers_mut().insert(STATUS_FIELD, HeaderValue::from(status.as_u16()));
    // Names of rules are printable, so that the problem is one line of text.
    if let Ok(problem) = HeaderValue::from_str(problem) {
        response.headers_mut().insert(PROBLEM_FIELD, problem);
    }
}
