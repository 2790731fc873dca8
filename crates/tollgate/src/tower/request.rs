//! Reads a request for the policy.

use std::net::IpAddr;

use http::{Extensions, HeaderMap, Uri, header};
use tollgate_policy::{FieldName, Headers, Request};

/// The address of the peer of a connection. A server that neither axum nor tonic runs inserts it into each request's
/// extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

/// Finds the peer's address where axum, tonic or a [`PeerAddress`] stores it.
pub(super) fn known_peer_address(extensions: &Extensions) -> Option<IpAddr> {
    if let Some(PeerAddress(address)) = extensions.get() {
        return Some(*address);
    }
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(address)) =
        extensions.get::<axum::extract::ConnectInfo<std::net::SocketAddr>>()
    {
        return Some(address.ip());
    }
    #[cfg(feature = "tonic")]
    if let Some(info) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
        return info.remote_addr().map(|address| address.ip());
    }
    None
}

/// The header fields of an HTTP request, and its host: the target's authority in HTTP/2.
pub(crate) struct HeaderLines<'a> {
    headers: &'a HeaderMap,
    uri: &'a Uri,
}

impl<'a> HeaderLines<'a> {
    pub(crate) fn of<B>(request: &'a http::Request<B>) -> HeaderLines<'a> {
        HeaderLines { headers: request.headers(), uri: request.uri() }
    }
}

impl Headers for HeaderLines<'_> {
    fn line(&self, name: &str, at: usize) -> Option<&[u8]> {
        if at == 0 {
            return self.headers.get(name).map(http::HeaderValue::as_bytes);
        }
        self.headers.get_all(name).iter().nth(at).map(http::HeaderValue::as_bytes)
    }

    fn first_line(&self, name: &str) -> Option<(&[u8], bool)> {
        let mut lines = self.headers.get_all(name).iter();
        let first = lines.next()?;
        Some((first.as_bytes(), lines.next().is_some()))
    }

    fn first_line_of(&self, name: &FieldName) -> Option<(&[u8], bool)> {
        let mut lines = self.headers.get_all(name.header_name()?).iter();
        let first = lines.next()?;
        Some((first.as_bytes(), lines.next().is_some()))
    }

    /// The authority of the target (HTTP/2), else the `Host` field (HTTP/1).
    fn host(&self) -> Option<&str> {
        let named = || self.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        self.uri.host().or_else(named)
    }
}

/// Describes an HTTP request to the policy.
pub(crate) fn policy_request<'a, B>(
    request: &'a http::Request<B>,
    headers: &'a HeaderLines<'a>,
    peer: Option<IpAddr>,
) -> Request<'a> {
    Request {
        method: request.method().as_str(),
        target: original_uri(request).path_and_query().map_or("", http::uri::PathAndQuery::as_str),
        headers,
        ..Request::from_peer(peer)
    }
}

/// The URI as the client sent it. A nested router of axum strips the prefix from what its services see; a policy
/// matches the whole path.
fn original_uri<B>(request: &http::Request<B>) -> &Uri {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::OriginalUri(uri)) = request.extensions().get() {
        return uri;
    }
    request.uri()
}

/// Whether the request is gRPC, whose clients read the status from a header field.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}
