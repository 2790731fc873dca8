//! Keys: their encoding, the parsing of keys that operators enter, and the hashing of credentials.

pub(crate) mod key_bytes;
pub(crate) mod read_key;
pub(crate) mod secrets;
