use std::fmt::Display;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Method, Request};
use axum::response::Response;
use axum::{BoxError, Router};

use super::check::{self, CHECK_PATH};
use super::connection::Caller;
use super::response_body::ResponseBody;
use crate::engine::Engine;

/// Who answers what on a listener.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    router: Router,
    /// Decides checks, where there are any, without the router: beside a
    /// decision in memory even finding the way would show.
    checks: Option<Arc<Engine>>,
}

impl Routes {
    pub(super) fn new(router: Router, checks: Option<Arc<Engine>>) -> Routes {
        Routes { router, checks }
    }

    pub(crate) async fn answer<B>(&self, request: Request<B>, caller: Caller) -> Response<ResponseBody>
    where
        B: HttpBody<Data = Bytes, Error: Display + Into<BoxError>> + Send + 'static,
    {
        match &self.checks {
            Some(engine) if request.uri().path() == CHECK_PATH && request.method() == Method::POST => {
                check::answer_check(engine, caller, request.into_body()).await
            }
            // On the heap, because it is large, and would be moved about with every check.
            _ => Box::pin(self.find(request, caller)).await.map(ResponseBody::from),
        }
    }

    async fn find<B>(&self, request: Request<B>, caller: Caller) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(caller);
        let mut router = self.router.clone();
        match tower_service::Service::call(&mut router, request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}
