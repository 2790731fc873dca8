//! What a client says on a connection, and when it has heard an answer.

/// One end of a conversation. It parses as little as can be, so that the load
/// is never what is measured.
pub(crate) trait Dialect {
    /// What is said before the first request.
    fn greet(&mut self, _said: &mut Vec<u8>) {}

    /// Appends one request to what is said.
    fn ask(&mut self, said: &mut Vec<u8>);

    /// How many answers end in these bytes. What must be said in return is
    /// appended to `said`, and goes with the next request.
    fn hear(&mut self, bytes: &[u8], said: &mut Vec<u8>) -> usize;
}
