//! `grpc.health.v1`.

use std::future::{Ready, ready};
use std::pin::Pin;

use prost::{Enumeration, Message};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::server::ServerStreamingService;
use tonic::{Request, Response, Status};

use super::service::SERVICES;

/// `grpc.health.v1.Health/Watch`
#[derive(Clone, Debug)]
pub(super) struct HealthWatch(pub(super) watch::Receiver<bool>);

/// `grpc.health.v1.Health/Check`
pub(super) fn check(stopped: bool, request: &HealthCheckRequest) -> Result<HealthCheckResponse, Status> {
    match is_known(&request.service) {
        true => Ok(health(stopped)),
        false => Err(Status::not_found("unknown service")),
    }
}

impl ServerStreamingService<HealthCheckRequest> for HealthWatch {
    type Response = HealthCheckResponse;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<HealthCheckRequest>) -> Self::Future {
        let is_known = is_known(&request.get_ref().service);
        let status = move |stopped| match is_known {
            true => health(stopped),
            // Required by the protocol: such a service may be added later.
            false => HealthCheckResponse { status: ServingStatus::ServiceUnknown.into() },
        };
        // It ends with the service, or shutdown would wait for it.
        let begun = *self.0.borrow();
        let end = WatchStream::new(self.0.clone()).filter(|stopped| *stopped).take(usize::from(!begun));
        let statuses = tokio_stream::once(begun).chain(end).map(move |stopped| Ok(status(stopped)));
        ready(Ok(Response::new(Box::pin(statuses))))
    }
}

fn is_known(service: &str) -> bool {
    service.is_empty() || SERVICES.contains(&service)
}

fn health(stopped: bool) -> HealthCheckResponse {
    let status = if stopped { ServingStatus::NotServing } else { ServingStatus::Serving };
    HealthCheckResponse { status: status.into() }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    pub(super) service: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct HealthCheckResponse {
    #[prost(enumeration = "ServingStatus", tag = "1")]
    pub(super) status: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum ServingStatus {
    Unknown = 0,
    Serving = 1,
    NotServing = 2,
    ServiceUnknown = 3,
}
