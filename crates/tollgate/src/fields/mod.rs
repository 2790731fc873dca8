//! A verdict as HTTP says it.

mod date;
mod estimate;
mod json;
mod line;
mod policy_lists;
mod problem;
mod response;

#[cfg(feature = "tower")]
pub(crate) use line::with_number;
pub(crate) use policy_lists::PolicyLists;
pub use problem::{INVALID_TOKEN, PROBLEM_JSON};
#[cfg(feature = "tower")]
pub(crate) use problem::{SHARE_IS_SPENT, TOKEN_IS_UNUSABLE};
pub use response::Field;
#[cfg(feature = "tower")]
pub(crate) use response::FieldValue;
