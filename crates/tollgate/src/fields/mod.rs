//! A verdict as HTTP says it.

mod date;
mod json;
mod problem;
mod response;

pub use problem::PROBLEM_JSON;
pub use response::Field;
