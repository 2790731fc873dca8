//! The identities of a request: client address, user, API key ..

pub(super) mod header;
#[cfg_attr(not(feature = "jwt"), path = "no_jwt.rs")]
mod jwt;
mod request_values;
mod source;
mod unusable;

pub(super) use request_values::{FoundValue, RequestValues, caller_value};
pub(super) use source::{CLIENT_IP, IdentityId, IdentityTable, ValueSource};
