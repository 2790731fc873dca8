//! How much a caller may ask of the front end. Gateways send a few hundred
//! bytes, and a handful of descriptors.

use std::time::Duration;
/// A gateway has one connection for each of its threads, and all its calls are on it.
pub(super) const MAX_CALLS_PER_CONNECTION: u32 = 1_024;
pub(super) const MAX_HEADER_BYTES: u32 = 16 << 10;
pub(super) const MAX_MESSAGE_BYTES: usize = 64 << 10;
pub(super) const MAX_DESCRIPTORS: usize = 128;
pub(super) const MAX_ENTRIES: usize = 64;
/// Whoever is still sending a message of this size after so long does not mean it.
pub(super) const CALL_WITHIN: Duration = Duration::from_secs(10);
pub(super) const GREETED_WITHIN: Duration = Duration::from_secs(10);
pub(super) const GREETED_WHILE_STOPPING: Duration = Duration::from_millis(500);
pub(super) const PING_EVERY: Duration = Duration::from_secs(30);
pub(super) const PING_ANSWERED_WITHIN: Duration = Duration::from_secs(20);
