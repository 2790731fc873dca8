//! Decisions while a shard fails: each limit applies its failure mode, and the charges that it admits are recorded as
//! debts, which are charged at the server later.

pub(super) mod debts;
pub(super) mod decide;
