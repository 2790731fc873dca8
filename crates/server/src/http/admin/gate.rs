//! Who is let in to the admin interface.
//!
//! A browser on the operator's machine reaches a loopback address too, and any
//! page in it can make it ask. So whoever asks from another site is refused,
//! token or not; and without a token, so is who calls this machine by a name
//! that somebody else could have given to it.

use std::net::IpAddr;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Admin;
use super::token::AdminToken;
use crate::http::connection::Caller;
use crate::http::problem::Problem;
use crate::observe::WhyRefused;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Lets a request through, or says why not, and writes down that somebody was refused.
pub(super) async fn gate(
    State(admin): State<Admin>,
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match may_enter(admin.token.as_ref(), request.uri().path(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(why) => {
            admin.engine.observer().note_refused_call(why, request.method().as_str(), caller.address);
            problem(why).into_response()
        }
    };
    // What an operator sees is for nobody's cache.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn problem(why: WhyRefused) -> Problem {
    match why {
        WhyRefused::NoToken => Problem::no_token(),
        WhyRefused::WrongToken => Problem::wrong_token(),
        WhyRefused::AnotherSite => Problem::from_another_site(),
        WhyRefused::CalledByName => Problem::called_by_a_name(),
    }
}

fn may_enter(token: Option<&AdminToken>, path: &str, headers: &HeaderMap) -> Result<(), WhyRefused> {
    if is_from_another_site(headers) {
        return Err(WhyRefused::AnotherSite);
    }
    match token {
        Some(token) if brought(headers).is_some_and(|brought| token.is(brought)) => Ok(()),
        Some(_) if headers.contains_key(header::AUTHORIZATION) => Err(WhyRefused::WrongToken),
        Some(_) => Err(WhyRefused::NoToken),
        // Scrapers go by whatever name they were given, and what they read names no client.
        None if path == "/metrics" || is_called_by_address(headers) => Ok(()),
        None => Err(WhyRefused::CalledByName),
    }
}

/// The token of `Authorization: Bearer TOKEN`.
fn brought(headers: &HeaderMap) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

/// Whether a browser says that a page of another origin asks.
fn is_from_another_site(headers: &HeaderMap) -> bool {
    let is_own = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    if headers.get(FETCH_SITE).is_some_and(|site| !is_own(site)) {
        return true;
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    authority.is_none() || authority != host
}

/// Whether it was called by an address or as localhost, which nobody can point elsewhere.
fn is_called_by_address(headers: &HeaderMap) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "a-token-of-an-operator";

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let line = |(name, value): &(&str, &str)| (name.parse().unwrap(), value.parse().unwrap());
        lines.iter().map(line).collect::<Vec<(HeaderName, HeaderValue)>>().into_iter().collect()
    }

    fn enters(token: Option<&str>, lines: &[(&str, &str)]) -> bool {
        let token = token.map(|token| AdminToken::new(token).unwrap());
        may_enter(token.as_ref(), "/api/rules", &headers(lines)).is_ok()
    }

    #[test]
    fn a_token_must_be_brought_where_there_is_one() {
        let bearer = format!("Bearer {TOKEN}");
        assert!(enters(Some(TOKEN), &[("host", "tollgate.internal"), ("authorization", &bearer)]));
        assert!(enters(Some(TOKEN), &[("authorization", &format!("bearer   {TOKEN}"))]));
        for wrong in ["", "Bearer", "Bearer ", &format!("Basic {TOKEN}"), TOKEN, &format!("Bearer {TOKEN}x")] {
            assert!(!enters(Some(TOKEN), &[("authorization", wrong)]), "{wrong}");
        }
        assert!(!enters(Some(TOKEN), &[("host", "127.0.0.1:9090")]));
        let without = may_enter(AdminToken::new(TOKEN).ok().as_ref(), "/metrics", &HeaderMap::new());
        assert!(without.is_err());
    }

    #[test]
    fn a_page_of_another_site_is_refused() {
        let host = ("host", "127.0.0.1:9090");
        let bearer = format!("Bearer {TOKEN}");
        for line in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:3000"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(!enters(None, &[host, line]), "{line:?}");
            assert!(!enters(Some(TOKEN), &[host, line, ("authorization", &bearer)]), "{line:?}");
        }
        assert!(enters(None, &[host, ("origin", "http://127.0.0.1:9090"), ("sec-fetch-site", "same-origin")]));
        assert!(enters(None, &[host, ("sec-fetch-site", "none")]));
    }

    #[test]
    fn a_name_that_others_could_give_to_this_machine_is_not_taken() {
        for host in ["127.0.0.1", "127.0.0.1:9090", "localhost:9090", "LOCALHOST", "[::1]:9090", "[::1]"] {
            assert!(enters(None, &[("host", host)]), "{host}");
        }
        for host in ["evil.example", "evil.example:9090", "127.0.0.1.evil.example:9090", "localhost.evil.example", ""] {
            assert!(!enters(None, &[("host", host)]), "{host}");
        }
        assert!(!enters(None, &[]));
        assert!(!enters(None, &[("host", "localhost"), ("host", "evil.example")]));
        assert!(may_enter(None, "/metrics", &headers(&[("host", "tollgate")])).is_ok());
    }
}
