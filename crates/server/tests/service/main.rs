//! The service through its sockets, with a manual clock.
#![allow(clippy::unwrap_used, reason = "a helper that fails must fail its test")]

mod admin;
mod admin_audit;
mod admin_keys;
mod admin_shared;
#[cfg(feature = "tls")]
mod authority;
mod bad_requests;
mod batch;
mod blocked;
mod check;
mod client;
mod connections;
mod denied;
mod forward_auth;
mod forward_auth_without_store;
mod full_store;
mod limits;
mod live;
mod load;
mod metrics;
mod page;
mod policy;
mod receipts;
mod reload;
#[path = "../../../cli/tests/program/rls_client.rs"]
mod rls_client;
mod stop;
mod test_service;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_protocols;
