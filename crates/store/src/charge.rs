use crate::limit::Limit;

/// One cost to one key under one limit, ready to be made.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    pub(crate) limit: &'a Limit,
    pub(crate) hash: u64,
    pub(crate) cost: u64,
}
