//! What happens while a shard fails: each limit applies its failure mode, and what passed uncounted is charged later.

pub(super) mod debts;
pub(super) mod decide;
