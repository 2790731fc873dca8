use std::sync::Arc;

use arc_swap::Guard;
use tollgate::Decision;

use super::{AskedQuota, Quotas, Store, Throttle};

/// Decides commands that came together by one reading of the list of quotas:
/// to read it takes longer than to find a quota in it.
///
/// It must be [let go](ThrottleBatch::let_go) before anything is waited for.
/// Who moves keys to the overflow waits until nobody goes by an older list.
pub(crate) struct ThrottleBatch<'a> {
    throttle: &'a Throttle,
    store: &'a Store,
    quotas: Option<Guard<Arc<Quotas>>>,
}

impl<'a> ThrottleBatch<'a> {
    pub(crate) fn new(throttle: &'a Throttle, store: &'a Store) -> ThrottleBatch<'a> {
        ThrottleBatch { throttle, store, quotas: None }
    }

    /// Like [`Throttle::check`].
    #[inline]
    pub(crate) fn check(&mut self, key: &[u8], asked: &mut AskedQuota, cost: u64) -> Decision {
        let quotas = self.quotas.get_or_insert_with(|| self.throttle.quotas.load());
        match quotas.limits.find(asked) {
            Some(limit) if !quotas.overflows => self.store.check(limit, key, cost),
            _ => {
                // It may wait for old lists, of which this could be one.
                self.let_go();
                self.throttle.check(self.store, key, asked, cost)
            }
        }
    }

    #[inline]
    pub(crate) fn let_go(&mut self) {
        self.quotas = None;
    }
}
