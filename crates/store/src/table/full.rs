/// Every entry that a new key could take is live, and none may make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;
