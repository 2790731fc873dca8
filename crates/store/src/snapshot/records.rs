//! The byte that says what a record is.

pub(super) const END: u8 = 0;
pub(super) const QUOTA: u8 = 1;
pub(super) const BUCKET: u8 = 2;
pub(super) const WINDOW: u8 = 3;
pub(super) const COUNTER: u8 = 4;
pub(super) const LOG: u8 = 5;
pub(super) const LEASES: u8 = 6;
