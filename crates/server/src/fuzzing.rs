//! Entry points for the fuzz targets, into private code.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;

pub use crate::grpc::RlsOutcome;

use crate::engine::Engine;
use crate::grpc::rls_outcome;
use crate::http::{self, HttpCaller};
use crate::listen::{Activity, AddressShare, StopFlag};

/// Returns the status and body of the response to an HTTP request.
///
/// # Panics
///
/// Panics if the fast path and the strict parser read a body differently.
pub fn http(engine: &Arc<Engine>, request: Request<Vec<u8>>) -> (u16, Vec<u8>) {
    http::assert_both_parsers_agree(request.body());
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    let caller = Arc::new(HttpCaller {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        body_timeout: Duration::from_secs(1),
        stopping: StopFlag::new(stopped),
        share: AddressShare::alone(),
        activity: Activity::new(),
        routes: http::public(engine, crate::access::CallerAccess::default()),
    });
    run(async {
        let request = caller.routes.find(request.map(Body::from));
        let response = caller.routes.respond(request, &caller).await;
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(Body::new(response.into_body()), usize::MAX).await.unwrap_or_default();
        (status, body.to_vec())
    })
}

/// Returns the outcome of an RLS message; `None` if it is invalid or refused.
pub fn rls(engine: &Arc<Engine>, message: &[u8]) -> Option<RlsOutcome> {
    run(rls_outcome(engine, message))
}

fn run<R>(future: impl Future<Output = R>) -> R {
    thread_local! {
        static RUNTIME: Option<tokio::runtime::Runtime> =
            tokio::runtime::Builder::new_current_thread().enable_time().build().ok();
    }
    RUNTIME.with(|runtime| match runtime {
        Some(runtime) => runtime.block_on(future),
        None => unreachable!("creating a runtime without sockets cannot fail"),
    })
}
