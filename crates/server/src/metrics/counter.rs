use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter. Clones share the value.
#[derive(Clone, Debug, Default)]
pub(crate) struct CounterMetric(Arc<AtomicU64>);

/// A gauge. Clones share the value.
#[derive(Clone, Debug, Default)]
pub(crate) struct GaugeMetric(Arc<AtomicU64>);

impl CounterMetric {
    pub(crate) fn inc(&self) {
        self.inc_by(1);
    }

    pub(crate) fn inc_by(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl GaugeMetric {
    pub(crate) fn inc(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Undoes an earlier [`inc`](GaugeMetric::inc).
    pub(crate) fn dec(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
