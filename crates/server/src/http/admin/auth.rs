//! Authentication of the admin API.
//!
//! A browser on the operator's machine reaches loopback addresses too, and any web page can make it send requests. So
//! requests of other sites are refused, with or without a token; without a token, so are requests whose host is a name
//! that its owner could have pointed at this machine.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::AdminState;
use crate::access::{AccessToken, bearer_token, is_called_by_address, is_from_another_site};
use crate::http::connection::HttpCaller;
use crate::http::problem::ProblemDetails;
use crate::observe::CallRefusal;

/// Forwards an authorized request to its handler, and logs a refused one.
pub(super) async fn authenticate(
    State(admin): State<AdminState>,
    Extension(caller): Extension<Arc<HttpCaller>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match authorize(admin.token.as_ref(), request.uri().path(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(why) => {
            admin.engine.observer().note_refused_call("admin", why, request.method().as_str(), caller.address);
            ProblemDetails::of_refused_admin_call(why).into_response()
        }
    };
    // Admin responses must not be cached.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn authorize(token: Option<&AccessToken>, path: &str, headers: &HeaderMap) -> Result<(), CallRefusal> {
    if is_from_another_site(headers) {
        return Err(CallRefusal::AnotherSite);
    }
    match token {
        Some(token) if bearer_token(headers).is_some_and(|sent| token.matches(sent)) => Ok(()),
        Some(_) if headers.contains_key(header::AUTHORIZATION) => Err(CallRefusal::WrongToken),
        Some(_) => Err(CallRefusal::NoToken),
        // Scrapers may use any host name, and metrics name no client.
        None if path == "/metrics" || is_called_by_address(headers) => Ok(()),
        None => Err(CallRefusal::CalledByName),
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

    fn is_authorized(token: Option<&str>, lines: &[(&str, &str)]) -> bool {
        let token = token.map(|token| AccessToken::new(token).unwrap());
        authorize(token.as_ref(), "/api/rules", &headers(lines)).is_ok()
    }

    #[test]
    fn requests_need_the_token_if_one_is_set() {
        let bearer = format!("Bearer {TOKEN}");
        assert!(is_authorized(Some(TOKEN), &[("host", "tollgate.internal"), ("authorization", &bearer)]));
        assert!(is_authorized(Some(TOKEN), &[("authorization", &format!("bearer   {TOKEN}"))]));
        for wrong in ["", "Bearer", "Bearer ", &format!("Basic {TOKEN}"), TOKEN, &format!("Bearer {TOKEN}x")] {
            assert!(!is_authorized(Some(TOKEN), &[("authorization", wrong)]), "{wrong}");
        }
        assert!(!is_authorized(Some(TOKEN), &[("host", "127.0.0.1:9090")]));
        let without = authorize(AccessToken::new(TOKEN).ok().as_ref(), "/metrics", &HeaderMap::new());
        assert!(without.is_err());
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        let host = ("host", "127.0.0.1:9090");
        let bearer = format!("Bearer {TOKEN}");
        for line in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:3000"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(!is_authorized(None, &[host, line]), "{line:?}");
            assert!(!is_authorized(Some(TOKEN), &[host, line, ("authorization", &bearer)]), "{line:?}");
        }
        assert!(is_authorized(None, &[host, ("origin", "http://127.0.0.1:9090"), ("sec-fetch-site", "same-origin")]));
        assert!(is_authorized(None, &[host, ("sec-fetch-site", "none")]));
    }

    #[test]
    fn host_must_be_an_address_or_localhost_without_a_token() {
        for host in ["127.0.0.1", "127.0.0.1:9090", "localhost:9090", "LOCALHOST", "[::1]:9090", "[::1]"] {
            assert!(is_authorized(None, &[("host", host)]), "{host}");
        }
        for host in ["evil.example", "evil.example:9090", "127.0.0.1.evil.example:9090", "localhost.evil.example", ""] {
            assert!(!is_authorized(None, &[("host", host)]), "{host}");
        }
        assert!(!is_authorized(None, &[]));
        assert!(!is_authorized(None, &[("host", "localhost"), ("host", "evil.example")]));
        assert!(authorize(None, "/metrics", &headers(&[("host", "tollgate")])).is_ok());
    }
}
