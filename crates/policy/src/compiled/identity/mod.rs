//! Who a request comes from.

pub(super) mod header;
#[cfg_attr(not(feature = "jwt"), path = "no_jwt.rs")]
mod jwt;
mod request_values;
mod source;
mod unusable;

pub(super) use request_values::{Found, RequestValues, said_by_caller};
pub(super) use source::{CLIENT_IP, Identities, IdentityId, Source};
