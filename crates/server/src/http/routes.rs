use std::fmt::Display;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderName, Method, Request, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Router};

use super::check::{self, CHECK_PATH};
use super::connection::{Caller, ResponseBody};
use super::problem::Problem;
use crate::access::{CallerAccess, FETCH_SITE, bearer_token, is_called_by_address, is_from_another_site};
use crate::engine::Engine;
use crate::observe::WhyRefused;
use crate::server::Listener;

pub(super) const FORWARD_AUTH_PATH: &str = "/v1/forward-auth";

/// Carries the token where `Authorization` is the client's own field, and for gateways that cannot set that one.
const TOKEN_FIELD: HeaderName = HeaderName::from_static("x-tollgate-token");

/// The parameter of forward-auth that carries the token.
pub(super) const TOKEN_PARAMETER: &str = "token=";

/// Who answers what on a listener.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    router: Router,
    engine: Arc<Engine>,
    /// Which requests are answered at all, where callers may ask for decisions.
    access: Option<CallerAccess>,
}

/// A request, and where it goes.
pub(crate) enum Routed<B> {
    /// A check, of which only the body matters. It is answered without the
    /// router: beside a decision in memory even finding the way would show.
    Check(B),
    /// Neither: the request is refused before anything of it is read.
    Refused(WhyRefused, Method),
    /// Anything else. On the heap, because it is large, and every check would be moved about with the room for it.
    Other(Box<Request<B>>),
}

impl Routes {
    /// With `access` where callers may ask for decisions, without it where they may not.
    pub(super) fn new(router: Router, access: Option<CallerAccess>, engine: &Arc<Engine>) -> Routes {
        Routes { router, engine: Arc::clone(engine), access }
    }

    pub(crate) fn find<B>(&self, request: Request<B>) -> Routed<B> {
        let Some(access) = &self.access else { return Routed::Other(Box::new(request)) };
        if let Err(why) = access.admit(&request) {
            Routed::Refused(why, request.method().clone())
        } else if request.uri().path() == CHECK_PATH && request.method() == Method::POST {
            Routed::Check(request.into_body())
        } else {
            Routed::Other(Box::new(request))
        }
    }

    pub(crate) async fn answer<B>(&self, request: Routed<B>, caller: &Arc<Caller>) -> Response<ResponseBody>
    where
        B: HttpBody<Data = Bytes, Error: Display + Into<BoxError>> + Send + 'static,
    {
        match request {
            Routed::Check(body) => check::answer_check(&self.engine, caller, body).await,
            Routed::Refused(why, method) => self.refuse(why, &method, caller).map(ResponseBody::Right),
            Routed::Other(request) => Box::pin(self.answer_other(*request, caller)).await.map(ResponseBody::Right),
        }
    }

    #[cold]
    fn refuse(&self, why: WhyRefused, method: &Method, caller: &Caller) -> Response {
        self.engine.observer().note_refused_call(Listener::Http.name(), why, method.as_str(), caller.address);
        Problem::of_refused_caller(why).into_response()
    }

    async fn answer_other<B>(&self, request: Request<B>, caller: &Arc<Caller>) -> Response
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
    /// Whether a request may be answered, or why not.
    fn admit<B>(&self, request: &Request<B>) -> Result<(), WhyRefused> {
        let (path, headers) = (request.uri().path(), request.headers());
        // Probes have no token, and learn nothing but that the service runs.
        if matches!(path, "/healthz" | "/readyz") {
            return Ok(());
        }
        // A gateway passes on the fields of its client, whose page may be of any site.
        if path != FORWARD_AUTH_PATH && request.method() != Method::GET {
            self.refuse_pages(headers)?;
        }
        let Some(token) = &self.token else { return Ok(()) };
        let mut why = WhyRefused::NoToken;
        for sent in tokens(path, request.uri(), headers) {
            if token.is(sent) {
                return Ok(());
            }
            why = WhyRefused::WrongToken;
        }
        Err(why)
    }

    /// A page in a browser reaches what its user reaches, and could charge, release and refund in any client's
    /// name. One that was given a name of its owner's for this machine counts as a page of this site.
    fn refuse_pages(&self, headers: &HeaderMap) -> Result<(), WhyRefused> {
        if !is_from_a_page(headers) {
            return Ok(());
        }
        if is_from_another_site(headers) {
            return Err(WhyRefused::AnotherSite);
        }
        if self.token.is_none() && !is_called_by_address(headers) {
            return Err(WhyRefused::CalledByName);
        }
        Ok(())
    }
}

/// What was sent as a token. On forward-auth `Authorization` is the client's; a gateway that can
/// set no field of its own there, such as Traefik, has the token in the address that it calls.
fn tokens<'a>(path: &str, uri: &'a Uri, headers: &'a HeaderMap) -> impl Iterator<Item = &'a [u8]> {
    let is_forward_auth = path == FORWARD_AUTH_PATH;
    let bearer = if is_forward_auth { None } else { bearer_token(headers) };
    let parameters = if is_forward_auth { uri.query().unwrap_or_default() } else { "" };
    let parameter = parameters.split('&').find_map(|parameter| parameter.strip_prefix(TOKEN_PARAMETER));
    let field = headers.get(TOKEN_FIELD).map(|value| value.as_bytes().trim_ascii());
    field.into_iter().chain(bearer).chain(parameter.map(str::as_bytes))
}

/// Whether a page in a browser may have sent the request. Programs send neither field.
fn is_from_a_page(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.get(FETCH_SITE).is_some_and(|site| site != "none")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessToken;

    const TOKEN: &str = "a-token-of-a-gateway";

    fn admit(token: Option<&str>, method: &str, target: &str, lines: &[(&str, &str)]) -> Result<(), WhyRefused> {
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
    fn a_page_of_another_site_is_refused_where_it_could_change_something() {
        let pages = [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:3000"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ];
        for page in pages {
            for path in ["/v1/check", "/v1/check/batch", "/v1/refund", "/v1/settle", "/v1/release"] {
                assert_eq!(admit(None, "POST", path, &[page]), Err(WhyRefused::AnotherSite), "{path} {page:?}");
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
        let by_hand = [("host", "tollgate.internal"), ("sec-fetch-site", "none")];
        assert_eq!(admit(None, "POST", "/v1/check", &by_hand), Ok(()));
    }

    #[test]
    fn a_page_whose_name_was_made_to_point_here_is_refused() {
        let rebound = [("host", "evil.example:8080"), ("origin", "http://evil.example:8080")];
        assert_eq!(admit(None, "POST", "/v1/check", &rebound), Err(WhyRefused::CalledByName));
        let bearer = format!("Bearer {TOKEN}");
        let [host, origin] = rebound;
        assert_eq!(admit(Some(TOKEN), "POST", "/v1/check", &[host, origin, ("authorization", &bearer)]), Ok(()));
    }

    #[test]
    fn a_token_is_required_everywhere_but_for_probes() {
        let bearer = format!("Bearer {TOKEN}");
        for path in ["/v1/check", "/v1/check/batch", "/v1/release", "/v1/limits", "/metrics", "/openapi.json", "/x"] {
            assert_eq!(admit(Some(TOKEN), "POST", path, &[]), Err(WhyRefused::NoToken), "{path}");
            assert_eq!(admit(Some(TOKEN), "POST", path, &[("authorization", &bearer)]), Ok(()), "{path}");
            assert_eq!(admit(Some(TOKEN), "POST", path, &[("x-tollgate-token", TOKEN)]), Ok(()), "{path}");
            let wrong = [("authorization", "Bearer another-token-altogether")];
            assert_eq!(admit(Some(TOKEN), "POST", path, &wrong), Err(WhyRefused::WrongToken), "{path}");
            let in_address = format!("{path}?token={TOKEN}");
            assert_eq!(admit(Some(TOKEN), "POST", &in_address, &[]), Err(WhyRefused::NoToken), "{path}");
        }
        assert_eq!(admit(Some(TOKEN), "GET", "/healthz", &[]), Ok(()));
        assert_eq!(admit(Some(TOKEN), "GET", "/readyz", &[]), Ok(()));
    }

    #[test]
    fn the_authorization_of_a_gateways_client_is_not_the_token() {
        let bearer = format!("Bearer {TOKEN}");
        let path = "/v1/forward-auth";
        assert_eq!(admit(Some(TOKEN), "GET", path, &[("authorization", &bearer)]), Err(WhyRefused::NoToken));
        let clients = ("authorization", "Bearer a-token-of-the-client");
        assert_eq!(admit(Some(TOKEN), "GET", path, &[clients, ("x-tollgate-token", TOKEN)]), Ok(()));
        let in_address = format!("{path}?deny_status=403&token={TOKEN}");
        assert_eq!(admit(Some(TOKEN), "GET", &in_address, &[clients]), Ok(()));
        let both = [clients, ("x-tollgate-token", "what the client made up")];
        assert_eq!(admit(Some(TOKEN), "GET", &in_address, &both), Ok(()));
    }
}
