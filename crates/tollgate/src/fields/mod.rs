//! Renders a verdict for HTTP: response fields and problem details.

#[cfg(feature = "tower")]
mod header_fields;
mod policy_lists;
mod problem;
mod response;
mod writer;

#[cfg(feature = "tower")]
pub(crate) use header_fields::HeaderFields;
pub(crate) use policy_lists::PolicyLists;
#[cfg(feature = "tower")]
pub(crate) use problem::{CLIENT_DENIED, REQUEST_DENIED, SHARE_IS_SPENT, TOKEN_IS_UNUSABLE};
pub use problem::{INVALID_TOKEN, PROBLEM_JSON};
pub use response::Field;
pub(crate) use writer::FieldText;
