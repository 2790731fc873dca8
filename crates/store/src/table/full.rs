/// The error for a new key: all slots that it could take have live entries, and none may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;
