//! A verdict as HTTP says it.

mod date;
mod json;
mod policy_lists;
mod problem;
mod response;

pub(crate) use policy_lists::PolicyLists;
pub use problem::PROBLEM_JSON;
pub use response::Field;
