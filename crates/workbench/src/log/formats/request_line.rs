//! The request line of HTTP within a log line: `GET /path HTTP/1.1`.

use memchr::{memchr, memrchr};

use crate::log::chunk::{ChunkSpan, ParsedRecord};
use crate::log::text::unescape_log;

/// Reads a request line into a record. `start` is the position of the text in the block.
///
/// A line that is not HTTP, for example the beginning of a TLS handshake, has no method and no target. It is still a
/// request of its client.
#[inline]
pub(super) fn read_request_line(text: &mut [u8], start: usize, record: &mut ParsedRecord) {
    let Some(method) = text.iter().position(|byte| !byte.is_ascii_uppercase()) else { return };
    if method == 0 || text[method] != b' ' {
        return read_unusual(text, start, record);
    }
    let target = &mut text[method + 1..];
    // The target itself may contain spaces, the protocol does not.
    let end = match memrchr(b' ', target) {
        Some(space) if target[space + 1..].starts_with(b"HTTP/") => space,
        _ => target.len(),
    };
    let length = unescape_log(&mut target[..end], true);
    record.method = ChunkSpan::new(start, start + method);
    record.target = ChunkSpan::new(start + method + 1, start + method + 1 + length);
}

/// Reads a request line whose method is not in upper case.
#[cold]
fn read_unusual(text: &mut [u8], start: usize, record: &mut ParsedRecord) {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let Some(method) = memchr(b' ', text).filter(|end| *end > 0 && text[..*end].iter().all(is_token)) else { return };
    let Some(protocol) = memrchr(b' ', text).filter(|at| *at > method && text[at + 1..].starts_with(b"HTTP/")) else {
        return;
    };
    let length = unescape_log(&mut text[method + 1..protocol], true);
    record.method = ChunkSpan::new(start, start + method);
    record.target = ChunkSpan::new(start + method + 1, start + method + 1 + length);
}
