//! The byte that says what a record is.

pub(super) const END: u8 = 0;
pub(super) const QUOTA: u8 = 1;
pub(super) const BUCKET: u8 = 2;
pub(super) const WINDOW: u8 = 3;
pub(super) const COUNTER: u8 = 4;
pub(super) const LOG: u8 = 5;
pub(super) const LEASES: u8 = 6;
// The same with what is owed, which most states do not: so a file without any is read by programs
// that know no debt.
pub(super) const WINDOW_OWING: u8 = 7;
pub(super) const COUNTER_OWING: u8 = 8;
pub(super) const LOG_OWING: u8 = 9;
// Keys of callers, which stood among the others before. They are there in files of stores that callers have used; a
// program that knows no such records does not read those.
pub(super) const CALLERS_APART: u8 = 10;
pub(super) const CALLER_BUCKET: u8 = 11;
pub(super) const CALLER_WINDOW: u8 = 12;
