//! Limits of the front end. Gateways send a few hundred bytes, and a handful of descriptors.

use std::time::Duration;

/// A gateway has one connection for each of its threads, with all its calls.
pub(super) const MAX_CALLS_PER_CONNECTION: u32 = 256;
/// Calls of a connection that need no slot of its address.
pub(super) const FREE_CALLS_PER_CONNECTION: usize = 8;
/// A client normally has one watch on each connection.
pub(super) const WATCHES_PER_CONNECTION: usize = 8;
/// How many messages of a connection may wait for memory while others of it, which have memory, are still read.
pub(super) const MAX_WAITING_WHILE_ARRIVING: usize = 2;
pub(super) const MAX_HEADER_BYTES: u32 = 16 << 10;
pub(super) const MAX_HEADER_FIELDS: usize = 100;
/// After this many calls with too many fields the connection is not read any further.
pub(super) const MAX_REFUSED_CALLS: usize = 4;
/// The flow-control window: received message bytes that no call has read yet.
pub(super) const WINDOW_BYTES: u32 = 64 << 10;
pub(super) const MAX_MESSAGE_BYTES: usize = 64 << 10;
pub(super) const MAX_DESCRIPTORS: usize = 128;
pub(super) const MAX_ENTRIES: usize = 64;
/// The timeout of a call's message.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for memory. Gateways have given up by then, and while a message waits little else is read from its
/// connection.
pub(super) const RESERVE_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest reflection stream.
pub(super) const REFLECTION_TIMEOUT: Duration = Duration::from_secs(60);
pub(super) const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const PREFACE_TIMEOUT_WHILE_STOPPING: Duration = Duration::from_millis(500);
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(30);
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(20);
