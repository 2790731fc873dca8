//! Paths: those that a policy names, and what servers take a request's path for.

pub(in crate::compiled) mod normal;
pub(in crate::compiled) mod pattern;
pub(in crate::compiled) mod plain_path;
pub(in crate::compiled) mod readings;
pub(in crate::compiled) mod resolve;
pub(in crate::compiled) mod routes;
