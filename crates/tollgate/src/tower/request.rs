use std::net::IpAddr;

use http::{HeaderMap, Uri, header, request::Parts};
use tollgate_policy::{FieldName, Headers, Request};

/// Header fields as HTTP has them.
pub(super) struct HeaderLines<'a>(pub(super) &'a HeaderMap);

impl Headers for HeaderLines<'_> {
    fn line(&self, name: &str, at: usize) -> Option<&[u8]> {
        if at == 0 {
            return self.0.get(name).map(http::HeaderValue::as_bytes);
        }
        self.0.get_all(name).iter().nth(at).map(http::HeaderValue::as_bytes)
    }

    fn first_line(&self, name: &str) -> Option<(&[u8], bool)> {
        let mut lines = self.0.get_all(name).iter();
        let first = lines.next()?;
        Some((first.as_bytes(), lines.next().is_some()))
    }

    fn first_line_of(&self, name: &FieldName) -> Option<(&[u8], bool)> {
        let mut lines = self.0.get_all(name.header_name()?).iter();
        let first = lines.next()?;
        Some((first.as_bytes(), lines.next().is_some()))
    }
}

/// What the policy may know of a request.
pub(super) fn described<'a>(parts: &'a Parts, headers: &'a HeaderLines<'a>, peer: Option<IpAddr>) -> Request<'a> {
    let named = || parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    Request {
        method: parts.method.as_str(),
        // HTTP/2 says it in the target, HTTP/1 in a field.
        host: parts.uri.host().or_else(named),
        target: whole_uri(parts).path_and_query().map_or("", http::uri::PathAndQuery::as_str),
        headers,
        ..Request::from_peer(peer)
    }
}

/// The address as it was asked for. A nested router of axum takes the prefix
/// away from what its services see, and a policy is about what clients send.
fn whole_uri(parts: &Parts) -> &Uri {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::OriginalUri(uri)) = parts.extensions.get() {
        return uri;
    }
    &parts.uri
}

/// Whether whoever asks speaks gRPC, and reads the status from a field of its own.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}
