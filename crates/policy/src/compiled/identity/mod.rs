//! Who a request comes from.

pub(super) mod cookie;
mod given;
pub(super) mod header;
#[cfg_attr(not(feature = "jwt"), path = "no_jwt.rs")]
mod jwt;
mod look;
pub(super) mod query;
mod source;
mod unusable;

pub(super) use given::said_by_caller;
pub(super) use look::{Found, Look, Seen};
pub(super) use source::{CLIENT_IP, Identities, IdentityId, Source};
