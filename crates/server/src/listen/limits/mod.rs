//! How many connections there may be and how much memory they may hold, in all and for each address.

pub(in crate::listen) mod connection_limits;
pub(in crate::listen) mod connection_slots;
pub(in crate::listen) mod counted_as;
pub(in crate::listen) mod descriptors;
pub(in crate::listen) mod shares;
