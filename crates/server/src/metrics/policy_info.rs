use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;

/// Which policy is in force. Instances that share counters and differ in this
/// are out of step: they hold the same key to different limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicyInfo {
    fingerprint: Arc<ArcSwap<String>>,
}

impl PolicyInfo {
    pub(crate) fn set(&self, fingerprint: String) {
        self.fingerprint.store(Arc::new(fingerprint));
    }
}

impl EncodeMetric for PolicyInfo {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let fingerprint = self.fingerprint.load();
        encoder.encode_family(&[("fingerprint", fingerprint.as_str())])?.encode_gauge(&1)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}
