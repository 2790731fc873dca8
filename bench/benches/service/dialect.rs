//! The client side of a protocol.

/// The client side of one connection. It parses as little as possible, so that the load generator is not the
/// bottleneck.
pub(crate) trait Dialect {
    /// The bytes sent before the first request.
    fn greet(&mut self, _out: &mut Vec<u8>) {}

    /// Appends one request to the bytes to send.
    fn write_request(&mut self, out: &mut Vec<u8>);

    /// Returns the number of responses that end in these bytes. Bytes that must be sent in return are appended, and are
    /// sent with the next request.
    fn count_responses(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize;
}
