//! Keys: as they are written, as operators type them, and what hides credentials in them.

pub(in crate::compiled) mod key_bytes;
pub(in crate::compiled) mod key_text;
pub(in crate::compiled) mod read_key;
pub(in crate::compiled) mod secrets;
