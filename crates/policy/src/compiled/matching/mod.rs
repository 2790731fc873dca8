//! Which rules match a request: their conditions, indexed, and what comes of it.

pub(in crate::compiled) mod bits;
pub(in crate::compiled) mod conditions;
pub(in crate::compiled) mod entries;
pub(in crate::compiled) mod hosts;
pub(in crate::compiled) mod matched;
pub(in crate::compiled) mod matcher;
pub(in crate::compiled) mod methods;
pub(in crate::compiled) mod texts;
