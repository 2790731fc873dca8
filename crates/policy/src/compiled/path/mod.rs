//! Path patterns of policies, and the readings of a request's path.

pub(crate) mod normal;
pub(crate) mod pattern;
pub(crate) mod plain_path;
pub(crate) mod readings;
pub(crate) mod routes;
