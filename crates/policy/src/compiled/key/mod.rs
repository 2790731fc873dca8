//! Keys: as they are written, as operators type them, and what hides credentials in them.

pub(crate) mod key_bytes;
pub(crate) mod read_key;
pub(crate) mod secrets;
