//! The responses that the layer sends instead of the service's.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::response::TollgateBody;
use crate::fields::{CLIENT_DENIED, INVALID_TOKEN, PROBLEM_JSON, REQUEST_DENIED, SHARE_IS_SPENT, TOKEN_IS_UNUSABLE};
use crate::verdict::{Action, Refused, Verdict};

impl Refused {
    /// Returns the HTTP response to the request: the status, the problem as its body, and the RateLimit fields.
    #[must_use]
    pub fn to_response(&self) -> Response<String> {
        let mut response = refusal(self, false);
        self.header_fields().put_into(response.headers_mut());
        response
    }
}

/// A handler may return it, or use `?`.
#[cfg(feature = "axum")]
impl axum::response::IntoResponse for Refused {
    fn into_response(self) -> axum::response::Response {
        self.to_response().map(axum::body::Body::from)
    }
}

/// The response to a refused request: problem+json, or a gRPC status.
pub(super) fn refusal(verdict: &Verdict, is_grpc: bool) -> Response<String> {
    if is_grpc {
        return grpc_refusal(verdict);
    }
    let mut response = Response::new(verdict.problem_json());
    *response.status_mut() = StatusCode::from_u16(verdict.status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    if verdict.is_unauthorized() {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(INVALID_TOKEN));
    }
    response
}

/// The trailers-only response of gRPC: HTTP status 200, the gRPC status in header fields, no body. The RateLimit fields
/// become metadata.
fn grpc_refusal(verdict: &Verdict) -> Response<String> {
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
        _ if verdict.is_store_failure() => REDUCED,
        _ => RESOURCE_EXHAUSTED,
    };
    match verdict.message() {
        Some(message) => grpc_response(status, &percent_encoded(message)),
        None => grpc_response(status, message),
    }
}

/// A text as `grpc-message` carries it: everything but printable ASCII is escaped, and so is `%`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn grpc_response(status: &'static str, message: &str) -> Response<String> {
    let mut response = Response::new(String::new());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from_static(status));
    if let Ok(message) = HeaderValue::from_str(message) {
        headers.insert("grpc-message", message);
    }
    response
}

/// The response to every request while the policy counts by client address and the server does not provide one. Letting
/// requests pass instead would be a limit without effect.
pub(super) fn no_peer_address<B>(is_grpc: bool) -> Response<TollgateBody<B>> {
    const INTERNAL: &str = "13";
    if is_grpc {
        let response = grpc_response(INTERNAL, "the rate limiter does not know the address of the client");
        return response.map(TollgateBody::refused);
    }
    const PROBLEM: &str = "{\"type\":\"about:blank\",\"title\":\"Internal Server Error\",\"status\":500,\"detail\":\"the rate limiter does not know the address of the client: serve with connect info, insert a PeerAddress into the request's extensions, or call TollgateLayer::peer_address\"}";
    let mut response = Response::new(TollgateBody::refused(Bytes::from_static(PROBLEM.as_bytes())));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    response
}
