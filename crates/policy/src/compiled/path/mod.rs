//! Paths: those that a policy names, and what servers take a request's path for.

pub(crate) mod normal;
pub(crate) mod pattern;
pub(crate) mod plain_path;
pub(crate) mod readings;
pub(crate) mod routes;
