//! The byte that identifies the kind of a record.

pub(super) const END: u8 = 0;
pub(super) const QUOTA: u8 = 1;
pub(super) const BUCKET: u8 = 2;
pub(super) const WINDOW: u8 = 3;
pub(super) const COUNTER: u8 = 4;
pub(super) const LOG: u8 = 5;
pub(super) const LEASES: u8 = 6;
// The same with a debt. Most states have none, so programs that do not know debts can read a file without these
// records.
pub(super) const WINDOW_WITH_DEBT: u8 = 7;
pub(super) const COUNTER_WITH_DEBT: u8 = 8;
pub(super) const LOG_WITH_DEBT: u8 = 9;
// Keys under callers' limits, which were among the others before. Only stores with such keys write these records; a
// program that does not know them cannot read such a file.
pub(super) const SEPARATE_CALLERS: u8 = 10;
pub(super) const CALLER_BUCKET: u8 = 11;
pub(super) const CALLER_WINDOW: u8 = 12;
