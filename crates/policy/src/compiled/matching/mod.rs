//! Which rules match a request: their conditions, indexed, and what comes of it.

pub(crate) mod bits;
pub(crate) mod conditions;
pub(crate) mod entries;
pub(crate) mod hosts;
pub(crate) mod matched;
pub(crate) mod matcher;
pub(crate) mod methods;
