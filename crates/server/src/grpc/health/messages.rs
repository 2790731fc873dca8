//! The messages of `grpc.health.v1`.

use prost::{Enumeration, Message};

#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    pub(in crate::grpc) service: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(in crate::grpc) struct HealthCheckResponse {
    #[prost(enumeration = "ServingStatus", tag = "1")]
    pub(in crate::grpc) status: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(in crate::grpc) enum ServingStatus {
    Unknown = 0,
    Serving = 1,
    NotServing = 2,
    ServiceUnknown = 3,
}
