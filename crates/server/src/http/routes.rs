use std::fmt::Display;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderName, Method, Request, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Router};

use super::check::{self, CHECK_PATH};
use super::connection::{HttpCaller, ResponseBody};
use super::problem::ProblemDetails;
use crate::access::{CallerAccess, FETCH_SITE, bearer_token, is_called_by_address, is_from_another_site};
use crate::engine::Engine;
use crate::observe::CallRefusal;
use crate::server::Listener;

pub(super) const FORWARD_AUTH_PATH: &str = "/v1/forward-auth";

/// The header with the token, if `Authorization` belongs to the client, and for gateways that cannot set `Authorization`.
const TOKEN_FIELD: HeaderName = HeaderName::from_static("x-tollgate-token");

/// The parameter of forward-auth that carries the token.
pub(super) const TOKEN_PARAMETER: &str = "token=";

/// Dispatches the requests of a listener.
#[derive(Clone, Debug)]
pub(crate) struct HttpRouter {
    router: Router,
    engine: Arc<Engine>,
    /// The access rules of a listener that serves decisions.
    access: Option<CallerAccess>,
}

/// A request and its route.
pub(crate) enum RoutedRequest<B> {
    /// A check, of which only the body matters. It bypasses the router: compared with a decision in memory, routing is
    /// measurable.
    Check(B),
    /// The request is refused before its body is read.
    Refused(CallRefusal, Method),
    /// Any other request. Boxed, because it is large, and every check would be moved with space for it.
    Other(Box<Request<B>>),
}

impl HttpRouter {
    /// Creates a router; `access` is set for listeners that serve decisions.
    pub(super) fn new(router: Router, access: Option<CallerAccess>, engine: &Arc<Engine>) -> HttpRouter {
        HttpRouter { router, engine: Arc::clone(engine), access }
    }

    pub(crate) fn find<B>(&self, request: Request<B>) -> RoutedRequest<B> {
        let Some(access) = &self.access else { return RoutedRequest::Other(Box::new(request)) };
        if let Err(why) = access.admit(&request) {
            RoutedRequest::Refused(why, request.method().clone())
        } else if request.uri().path() == CHECK_PATH && request.method() == Method::POST {
            RoutedRequest::Check(request.into_body())
        } else {
            RoutedRequest::Other(Box::new(request))
        }
    }

    pub(crate) async fn respond<B>(&self, request: RoutedRequest<B>, caller: &Arc<HttpCaller>) -> Response<ResponseBody>
    where
        B: HttpBody<Data = Bytes, Error: Display + Into<BoxError>> + Send + 'static,
    {
        match request {
            RoutedRequest::Check(body) => check::respond_to_check(&self.engine, caller, body).await,
            RoutedRequest::Refused(why, method) => self.refuse(why, &method, caller).map(ResponseBody::Right),
            RoutedRequest::Other(request) => {
                Box::pin(self.respond_to_other(*request, caller)).await.map(ResponseBody::Right)
            }
        }
    }

    #[cold]
    fn refuse(&self, why: CallRefusal, method: &Method, caller: &HttpCaller) -> Response {
        self.engine.observer().note_refused_call(Listener::Http.name(), why, method.as_str(), caller.address);
        ProblemDetails::of_refused_caller(why).into_response()
    }

    async fn respond_to_other<B>(&self, request: Request<B>, caller: &Arc<HttpCaller>) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Arc::clone(caller));
        let mut router = self.router.clone();
        match tower_service::Service::call(&mut router, request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

impl CallerAccess {
    /// Returns why a request is refused, if it is.
    fn admit<B>(&self, request: &Request<B>) -> Result<(), CallRefusal> {
        let (path, headers) = (request.uri().path(), request.headers());
        // Health checks send no token, and reveal only that the service runs.
        if matches!(path, "/healthz" | "/readyz") {
            return Ok(());
        }
        // A gateway forwards the fields of its client, whose page may be of any site.
        if path != FORWARD_AUTH_PATH && request.method() != Method::GET {
            self.refuse_pages(headers)?;
        }
        let Some(token) = &self.token else { return Ok(()) };
        let mut why = CallRefusal::NoToken;
        for sent in tokens(path, request.uri(), headers) {
            if token.matches(sent) {
                return Ok(());
            }
            why = CallRefusal::WrongToken;
        }
        Err(why)
    }

    /// Refuses requests of web pages. A page can reach what its user reaches, and could charge, release and refund for
    /// any client. A page under a name that points at this machine has the same origin.
    fn refuse_pages(&self, headers: &HeaderMap) -> Result<(), CallRefusal> {
        if !is_from_a_page(headers) {
            return Ok(());
        }
        if is_from_another_site(headers) {
            return Err(CallRefusal::AnotherSite);
        }
        if self.token.is_none() && !is_called_by_address(headers) {
            return Err(CallRefusal::CalledByName);
        }
        Ok(())
    }
}

/// Returns the tokens of a request. On forward-auth, `Authorization` belongs to the client; a gateway that cannot set
/// a field there, such as Traefik, has the token in the URL.
fn tokens<'a>(path: &str, uri: &'a Uri, headers: &'a HeaderMap) -> impl Iterator<Item = &'a [u8]> {
    let is_forward_auth = path == FORWARD_AUTH_PATH;
    let bearer = if is_forward_auth { None } else { bearer_token(headers) };
    let parameters = if is_forward_auth { uri.query().unwrap_or_default() } else { "" };
    let parameter = parameters.split('&').find_map(|parameter| parameter.strip_prefix(TOKEN_PARAMETER));
    let field = headers.get(TOKEN_FIELD).map(|value| value.as_bytes().trim_ascii());
    field.into_iter().chain(bearer).chain(parameter.map(str::as_bytes))
}

/// Returns whether a web page may have sent the request. Programs send neither field.
fn is_from_a_page(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.get(FETCH_SITE).is_some_and(|site| site != "none")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessToken;

    const TOKEN: &str = "a-token-of-a-gateway";

    fn admit(token: Option<&str>, method: &str, target: &str, lines: &[(&str, &str)]) -> Result<(), CallRefusal> {
        let token = token.map(|token| AccessToken::new(token).unwrap());
        let access = CallerAccess { token, ..CallerAccess::default() };
        let mut request = Request::builder().method(method).uri(target);
        if !lines.iter().any(|(name, _)| *name == "host") {
            request = request.header(header::HOST, "127.0.0.1:8080");
        }
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        access.admit(&request.body(()).unwrap())
    }

    #[test]
    fn pages_of_other_sites_are_refused_for_requests_that_change_state() {
        let pages = [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:3000"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ];
        for page in pages {
            for path in ["/v1/check", "/v1/check/batch", "/v1/refund", "/v1/settle", "/v1/release"] {
                assert_eq!(admit(None, "POST", path, &[page]), Err(CallRefusal::AnotherSite), "{path} {page:?}");
            }
            for method in ["GET", "POST"] {
                assert_eq!(admit(None, method, "/v1/forward-auth", &[page]), Ok(()), "{page:?}");
            }
            assert_eq!(admit(None, "GET", "/v1/limits", &[page]), Ok(()));
        }
    }

    #[test]
    fn programs_and_pages_of_this_site_are_admitted() {
        assert_eq!(admit(None, "POST", "/v1/check", &[("host", "tollgate.internal")]), Ok(()));
        let own = [("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")];
        assert_eq!(admit(None, "POST", "/v1/check", &own), Ok(()));
        let typed = [("host", "tollgate.internal"), ("sec-fetch-site", "none")];
        assert_eq!(admit(None, "POST", "/v1/check", &typed), Ok(()));
    }

    #[test]
    fn pages_under_a_rebound_name_are_refused() {
        let rebound = [("host", "evil.example:8080"), ("origin", "http://evil.example:8080")];
        assert_eq!(admit(None, "POST", "/v1/check", &rebound), Err(CallRefusal::CalledByName));
        let bearer = format!("Bearer {TOKEN}");
        let [host, origin] = rebound;
        assert_eq!(admit(Some(TOKEN), "POST", "/v1/check", &[host, origin, ("authorization", &bearer)]), Ok(()));
    }

    #[test]
    fn token_is_required_except_for_health_checks() {
        let bearer = format!("Bearer {TOKEN}");
        for path in ["/v1/check", "/v1/check/batch", "/v1/release", "/v1/limits", "/metrics", "/openapi.json", "/x"] {
            assert_eq!(admit(Some(TOKEN), "POST", path, &[]), Err(CallRefusal::NoToken), "{path}");
            assert_eq!(admit(Some(TOKEN), "POST", path, &[("authorization", &bearer)]), Ok(()), "{path}");
            assert_eq!(admit(Some(TOKEN), "POST", path, &[("x-tollgate-token", TOKEN)]), Ok(()), "{path}");
            let wrong = [("authorization", "Bearer another-token-altogether")];
            assert_eq!(admit(Some(TOKEN), "POST", path, &wrong), Err(CallRefusal::WrongToken), "{path}");
            let with_parameter = format!("{path}?token={TOKEN}");
            assert_eq!(admit(Some(TOKEN), "POST", &with_parameter, &[]), Err(CallRefusal::NoToken), "{path}");
        }
        assert_eq!(admit(Some(TOKEN), "GET", "/healthz", &[]), Ok(()));
        assert_eq!(admit(Some(TOKEN), "GET", "/readyz", &[]), Ok(()));
    }

    #[test]
    fn authorization_of_a_gateways_client_is_not_the_token() {
        let bearer = format!("Bearer {TOKEN}");
        let path = "/v1/forward-auth";
        assert_eq!(admit(Some(TOKEN), "GET", path, &[("authorization", &bearer)]), Err(CallRefusal::NoToken));
        let client_token = ("authorization", "Bearer a-token-of-the-client");
        assert_eq!(admit(Some(TOKEN), "GET", path, &[client_token, ("x-tollgate-token", TOKEN)]), Ok(()));
        let with_parameter = format!("{path}?deny_status=403&token={TOKEN}");
        assert_eq!(admit(Some(TOKEN), "GET", &with_parameter, &[client_token]), Ok(()));
        let both = [client_token, ("x-tollgate-token", "sent by the client")];
        assert_eq!(admit(Some(TOKEN), "GET", &with_parameter, &both), Ok(()));
    }
}
