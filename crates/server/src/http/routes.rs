use std::fmt::Display;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Method, Request};
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Router};

use super::check::{self, CHECK_PATH};
use super::connection::{Caller, ConnectionShare};
use super::problem::Problem;
use super::public_gate::PublicGate;
use super::response_body::ResponseBody;
use crate::engine::Engine;
use crate::observe::WhyRefused;
use crate::server::Listener;

/// Who answers what on a listener.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    router: Router,
    engine: Arc<Engine>,
    /// What admits requests, where callers may ask for decisions.
    checks: Option<PublicGate>,
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
    /// Where somebody may ask for a decision.
    pub(super) fn with_checks(router: Router, gate: PublicGate, engine: &Arc<Engine>) -> Routes {
        Routes { router, engine: Arc::clone(engine), checks: Some(gate) }
    }

    /// Where nobody may.
    pub(super) fn without_checks(router: Router, engine: &Arc<Engine>) -> Routes {
        Routes { router, engine: Arc::clone(engine), checks: None }
    }

    pub(crate) fn find<B>(&self, request: Request<B>) -> Routed<B> {
        let Some(gate) = &self.checks else { return Routed::Other(Box::new(request)) };
        if let Err(why) = gate.admit(&request) {
            Routed::Refused(why, request.method().clone())
        } else if request.uri().path() == CHECK_PATH && request.method() == Method::POST {
            Routed::Check(request.into_body())
        } else {
            Routed::Other(Box::new(request))
        }
    }

    pub(crate) async fn answer<B>(
        &self,
        request: Routed<B>,
        caller: Caller,
        connection: &Arc<ConnectionShare>,
    ) -> Response<ResponseBody>
    where
        B: HttpBody<Data = Bytes, Error: Display + Into<BoxError>> + Send + 'static,
    {
        match request {
            Routed::Check(body) => check::answer_check(&self.engine, caller, connection, body).await,
            Routed::Refused(why, method) => self.refuse(why, &method, caller).map(ResponseBody::from),
            Routed::Other(request) => {
                Box::pin(self.answer_other(*request, caller, connection)).await.map(ResponseBody::from)
            }
        }
    }

    #[cold]
    fn refuse(&self, why: WhyRefused, method: &Method, caller: Caller) -> Response {
        self.engine.observer().note_refused_call(Listener::Http.name(), why, method.as_str(), caller.address);
        Problem::of_refused_caller(why).into_response()
    }

    async fn answer_other<B>(&self, request: Request<B>, caller: Caller, connection: &Arc<ConnectionShare>) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(caller);
        request.extensions_mut().insert(Arc::clone(connection));
        let mut router = self.router.clone();
        match tower_service::Service::call(&mut router, request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}
