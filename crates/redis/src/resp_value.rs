//! What a server answers, as the protocol knows it.

/// A reply of the RESP2 protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Integer(i64),
    Bulk(Option<Vec<u8>>),
    Simple(String),
    Error(String),
    Array(Option<Vec<Value>>),
}
