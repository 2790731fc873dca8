//! Who is let in to the admin interface.
//!
//! A browser on the operator's machine reaches a loopback address too, and any
//! page in it can make it ask. So whoever asks from another site is refused,
//! token or not; and without a token, so is who calls this machine by a name
//! that somebody else could have given to it.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Admin;
use crate::access::{AccessToken, bearer_token, is_called_by_address, is_from_another_site};
use crate::http::connection::Caller;
use crate::http::problem::Problem;
use crate::observe::WhyRefused;

/// Lets a request through, or says why not, and writes down that somebody was refused.
pub(super) async fn gate(
    State(admin): State<Admin>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match may_enter(admin.token.as_ref(), request.uri().path(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(why) => {
            admin.engine.observer().note_refused_call("admin", why, request.method().as_str(), caller.address);
            Problem::of_refused_operator(why).into_response()
        }
    };
    // What an operator sees is for nobody's cache.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn may_enter(token: Option<&AccessToken>, path: &str, headers: &HeaderMap) -> Result<(), WhyRefused> {
    if is_from_another_site(headers) {
        return Err(WhyRefused::AnotherSite);
    }
    match token {
        Some(token) if bearer_token(headers).is_some_and(|sent| token.is(sent)) => Ok(()),
        Some(_) if headers.contains_key(header::AUTHORIZATION) => Err(WhyRefused::WrongToken),
        Some(_) => Err(WhyRefused::NoToken),
        // Scrapers go by whatever name they were given, and what they read names no client.
        None if path == "/metrics" || is_called_by_address(headers) => Ok(()),
        None => Err(WhyRefused::CalledByName),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    const TOKEN: &str = "a-token-of-an-operator";

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let line = |(name, value): &(&str, &str)| (name.parse().unwrap(), value.parse().unwrap());
        lines.iter().map(line).collect::<Vec<(HeaderName, HeaderValue)>>().into_iter().collect()
    }

    fn enters(token: Option<&str>, lines: &[(&str, &str)]) -> bool {
        let token = token.map(|token| AccessToken::new(token).unwrap());
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
        let without = may_enter(AccessToken::new(TOKEN).ok().as_ref(), "/metrics", &HeaderMap::new());
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
