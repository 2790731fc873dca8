//! Replies of a server as values of the protocol.

/// A reply of the RESP2 protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Integer(i64),
    Bulk(Option<Vec<u8>>),
    Simple(String),
    Error(String),
    Array(Option<Vec<Value>>),
}
