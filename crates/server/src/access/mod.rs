//! Authentication of callers, for every listener.

mod token;

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, header};

pub use token::{AccessToken, TokenError};

/// The header by which browsers describe the origin of a request.
pub(crate) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Access to decisions, and to metrics on the public HTTP listener.
#[derive(Clone, Debug)]
pub struct CallerAccess {
    /// The token that callers must send. Without one, every program that reaches a listener has access.
    pub token: Option<AccessToken>,
    /// Whether the HTTP listener serves `GET /metrics`.
    pub has_metrics: bool,
}

impl Default for CallerAccess {
    fn default() -> CallerAccess {
        CallerAccess { token: None, has_metrics: true }
    }
}

/// Returns the token of `Authorization: Bearer TOKEN`.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

/// Returns whether the request comes from a web page of another origin.
pub(crate) fn is_from_another_site(headers: &HeaderMap) -> bool {
    let is_own = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    if headers.get_all(FETCH_SITE).iter().any(|site| !is_own(site)) {
        return true;
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    authority.is_none() || authority != host
}

/// Returns whether the host is an IP address or localhost. The owner of any other name can point it at this machine,
/// and a page under that name then has the same origin.
pub(crate) fn is_called_by_address(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) else { return false };
    let name = match host.rsplit_once(':') {
        // A colon in a bare IPv6 address does not begin a port.
        Some((name, port)) if !name.ends_with(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}
