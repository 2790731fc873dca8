use std::sync::Arc;

use tollgate::Clock;

/// The clock that was chosen when the service started.
///
/// A type of its own around the pointer: a future that holds `dyn Clock` in its
/// type is taken for one that another thread may not run.
#[derive(Clone)]
pub(crate) struct ServiceClock(pub(crate) Arc<dyn Clock>);

impl Clock for ServiceClock {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
}
