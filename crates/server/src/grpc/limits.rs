//! How much a caller may ask of the front end. Gateways send a few hundred
//! bytes, and a handful of descriptors.

use std::time::Duration;

/// A gateway has one connection for each of its threads, and all its calls are on it.
pub(super) const MAX_CALLS_PER_CONNECTION: u32 = 256;
/// So many calls of a connection need no place among those of its address.
pub(super) const CALLS_OF_EACH_CONNECTION: usize = 8;
/// A client watches a service once on each connection.
pub(super) const WATCHES_PER_CONNECTION: usize = 8;
/// So many messages of a connection may wait for room while others of it, which have room, are still read.
pub(super) const WAITING_BESIDE_ARRIVING: usize = 2;
pub(super) const MAX_HEADER_BYTES: u32 = 16 << 10;
pub(super) const MAX_HEADER_FIELDS: usize = 100;
/// A client that calls so often with more fields is not read any further.
pub(super) const MAX_REFUSED_HEADS: usize = 4;
/// What may have come of messages, on one connection, that no call has taken yet.
pub(super) const WINDOW_BYTES: u32 = 64 << 10;
pub(super) const MAX_MESSAGE_BYTES: usize = 64 << 10;
pub(super) const MAX_DESCRIPTORS: usize = 128;
pub(super) const MAX_ENTRIES: usize = 64;
/// Whoever is still sending a message of this size after so long does not mean it.
pub(super) const CALL_WITHIN: Duration = Duration::from_secs(10);
/// A gateway has long given up by then, and while a message waits little else is read from its connection.
pub(super) const ROOM_WITHIN: Duration = Duration::from_secs(2);
/// A client has asked all that can be asked here after so long.
pub(super) const CONVERSATION_WITHIN: Duration = Duration::from_secs(60);
pub(super) const GREETED_WITHIN: Duration = Duration::from_secs(10);
pub(super) const GREETED_WHILE_STOPPING: Duration = Duration::from_millis(500);
pub(super) const PING_EVERY: Duration = Duration::from_secs(30);
pub(super) const PING_ANSWERED_WITHIN: Duration = Duration::from_secs(20);
