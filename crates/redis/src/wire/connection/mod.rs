//! Connections: establishing them, keeping them open, and sending calls over them.

pub(super) mod address;
pub(super) mod backoff;
pub(super) mod call_queue;
pub(super) mod connect_params;
pub(super) mod driver;
pub(super) mod link;
pub(super) mod password;
pub(super) mod stream;
pub(super) mod subscription;
#[cfg(feature = "tls")]
pub(super) mod tls;
