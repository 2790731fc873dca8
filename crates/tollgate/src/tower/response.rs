//! A verdict as a response says it.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::body::TollgateBody;
use crate::fields::{
    CLIENT_DENIED, Field, HeaderFields, INVALID_TOKEN, PROBLEM_JSON, REQUEST_DENIED, SHARE_IS_SPENT, TOKEN_IS_UNUSABLE,
};
use crate::verdict::{Action, Verdict};

/// The fields that tell of one limit only.
const X_FIELDS: [Field; 3] = [Field::XRateLimitLimit, Field::XRateLimitRemaining, Field::XRateLimitReset];

/// Left in a response for a layer further out, so that it adds to the fields and does not replace them.
#[derive(Clone, Copy)]
struct HasFields;

/// Puts the fields of a verdict into a response; where a layer further in has
/// told something already, both are told. `is_inner` says whether a layer
/// further out will add to them.
pub(super) fn put_fields<B>(fields: HeaderFields, is_inner: bool, response: &mut Response<B>) {
    let told_before = response.extensions().get::<HasFields>().is_some();
    if is_inner {
        response.extensions_mut().insert(HasFields);
    }
    let headers = response.headers_mut();
    if told_before { add_fields(fields.into_map(), headers) } else { fields.put_into(headers) }
}

fn add_fields(fields: HeaderMap, headers: &mut HeaderMap) {
    let x_fields = X_FIELDS.map(Field::header_name);
    let replaces_x_fields = is_tighter(&fields, headers);
    if replaces_x_fields {
        // They are about one limit: one of them that we have not must not stay beside ours.
        x_fields.iter().for_each(|name| drop(headers.remove(name)));
    }
    for (name, value) in fields.into_iter().filter_map(|(name, value)| Some((name?, value))) {
        match headers.get(&name) {
            // They were removed where ours are told.
            None if x_fields.contains(&name) && !replaces_x_fields => {}
            None => drop(headers.insert(name, value)),
            // A layer that refuses has not called what is further in, so there is nothing to join.
            Some(_) if x_fields.contains(&name) || name == header::RETRY_AFTER => {}
            Some(known) => {
                let both = [known.as_bytes(), value.as_bytes()].join(&b", "[..]);
                drop(HeaderValue::from_bytes(&both).map(|both| headers.insert(name, both)));
            }
        }
    }
}

/// Whether less remains than what a layer further in has told, if it has told anything.
fn is_tighter(fields: &HeaderMap, headers: &HeaderMap) -> bool {
    let remaining = |headers: &HeaderMap| -> Option<u64> {
        headers.get(Field::XRateLimitRemaining.header_name())?.to_str().ok()?.parse().ok()
    };
    remaining(fields).is_some_and(|ours| remaining(headers).is_none_or(|theirs| ours < theirs))
}

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
