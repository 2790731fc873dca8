//! Who may ask, on every listener.

mod token;

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, header};

pub use token::{AccessToken, TokenError};

/// What a browser says about the page that makes it send a request.
pub(crate) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Who may ask for decisions, and what the public HTTP listener shows.
#[derive(Clone, Debug)]
pub struct CallerAccess {
    /// The token that callers must send. Without one, every program that reaches a listener may ask.
    pub token: Option<AccessToken>,
    /// Whether the HTTP listener answers `GET /metrics`.
    pub has_metrics: bool,
}

impl Default for CallerAccess {
    fn default() -> CallerAccess {
        CallerAccess { token: None, has_metrics: true }
    }
}

/// The token of `Authorization: Bearer TOKEN`.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

/// Whether a browser says that a page of another origin asks.
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

/// Whether the request names this machine by an address or as localhost. Any other name can be
/// made to point here by its owner, and a page under that name then counts as one of this site.
pub(crate) fn is_called_by_address(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) else { return false };
    let name = match host.rsplit_once(':') {
        // The colons of a bare IPv6 address are none before a port.
        Some((name, port)) if !name.ends_with(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}
