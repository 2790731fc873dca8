//! What is answered instead of the service.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::response::TollgateBody;
use crate::fields::{CLIENT_DENIED, INVALID_TOKEN, PROBLEM_JSON, REQUEST_DENIED, SHARE_IS_SPENT, TOKEN_IS_UNUSABLE};
use crate::verdict::{Action, Verdict};

/// What a refused client is answered.
pub(super) fn refusal<B>(verdict: &Verdict, is_grpc: bool) -> Response<TollgateBody<B>> {
    if is_grpc {
        return grpc_refusal(verdict);
    }
    let mut response = Response::new(TollgateBody::refused(Bytes::from(verdict.problem_json())));
    *response.status_mut() = StatusCode::from_u16(verdict.status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    if verdict.is_unauthorized() {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(INVALID_TOKEN));
    }
    response
}

/// gRPC says it in fields, under the status 200 and without a body. The
/// response fields become metadata.
fn grpc_refusal<B>(verdict: &Verdict) -> Response<TollgateBody<B>> {
    const RESOURCE_EXHAUSTED: (&str, &str) = ("8", "the limit is reached");
    const PERMISSION_DENIED: &str = "7";
    const UNCOUNTED: (&str, &str) = ("14", "the request could not be counted");
    const REDUCED: (&str, &str) = ("14", SHARE_IS_SPENT);
    const UNAUTHENTICATED: (&str, &str) = ("16", TOKEN_IS_UNUSABLE);
    let (status, message) = match verdict.action() {
        Action::Deny if verdict.is_unauthorized() => UNAUTHENTICATED,
        Action::Deny if verdict.denied_by().is_some() => (PERMISSION_DENIED, REQUEST_DENIED),
        Action::Deny => (PERMISSION_DENIED, CLIENT_DENIED),
        _ if verdict.is_uncounted() => UNCOUNTED,
        _ if verdict.is_trouble() => REDUCED,
        _ => RESOURCE_EXHAUSTED,
    };
    grpc_response(status, message)
}

fn grpc_response<B>(status: &'static str, message: &'static str) -> Response<TollgateBody<B>> {
    let mut response = Response::new(TollgateBody::default());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from_static(status));
    headers.insert("grpc-message", HeaderValue::from_static(message));
    response
}

/// What everybody is answered while the server does not say where requests
/// come from: an answer that lets pass would be a limit that limits nothing.
pub(super) fn no_peer_address<B>(is_grpc: bool) -> Response<TollgateBody<B>> {
    const INTERNAL: &str = "13";
    if is_grpc {
        return grpc_response(INTERNAL, "the rate limiter does not see where requests come from");
    }
    const PROBLEM: &str = "{\"type\":\"about:blank\",\"title\":\"Internal Server Error\",\"status\":500,\"detail\":\"the rate limiter does not see where requests come from: serve with connect info, insert a PeerAddress, or tell the layer where to look\"}";
    let mut response = Response::new(TollgateBody::refused(Bytes::from_static(PROBLEM.as_bytes())));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    response
}
