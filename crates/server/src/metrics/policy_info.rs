use std::sync::Arc;

use arc_swap::ArcSwap;

use super::exposition::{Exposition, Kind};

/// Which policy is in force. Instances that share counters and differ in this
/// are out of step: they hold the same key to different limits.
#[derive(Debug, Default)]
pub(crate) struct PolicyInfo {
    fingerprint: ArcSwap<String>,
}

impl PolicyInfo {
    pub(crate) fn set(&self, fingerprint: String) {
        self.fingerprint.store(Arc::new(fingerprint));
    }

    pub(crate) fn write(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_policy_info";
        exposition.describe(NAME, Kind::Gauge, "Which policy is in force, by what it says.");
        exposition.sample(NAME, &[("fingerprint", &self.fingerprint.load())], 1);
    }
}
