//! A service is called only after it was ready, as tower requires.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use tollgate::{AsyncLimiter, Limiter, rule};
use tower::{Layer, Service, ServiceExt};

use crate::support::{clock, hesitant};

/// It reserves a slot when it is ready, until it is called; a clone has none.
#[derive(Default)]
struct Particular {
    is_ready: bool,
}

impl Clone for Particular {
    fn clone(&self) -> Particular {
        Particular::default()
    }
}

impl Service<Request<Body>> for Particular {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "it is called without having been asked");
        ready(Ok(Response::new(Body::empty())))
    }
}

async fn ask_three_times(limiter: &AsyncLimiter) {
    let mut service = limiter.layer().layer(Particular::default());
    for _ in 0..3 {
        let request = Request::get("/").body(Body::empty()).unwrap();
        let response = service.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(response.status(), 200);
    }
}

#[tokio::test]
async fn at_once() {
    let limiter = Limiter::builder().rule(rule("all").limit("9/h")).build_with_clock(clock()).unwrap();
    ask_three_times(&limiter).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_delay() {
    let queue = rule("all").limit("1/s").queue(6, Duration::from_secs(9));
    ask_three_times(&Limiter::builder().rule(queue).build_with_clock(clock()).unwrap()).await;
}

#[tokio::test]
async fn after_the_store_has_answered() {
    ask_three_times(&hesitant(rule("all").limit("9/h"))).await;
}
