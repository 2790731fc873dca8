use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tollgate::redis::{MissingShare, RegionDivision, RegionStatus};

use crate::engine::Engine;
use crate::http::problem::ProblemDetails;
use crate::store::region_status;

#[derive(Debug, Serialize)]
pub(super) struct RegionStatusBody {
    region: String,
    /// Null without a share.
    share_thousandths: Option<u32>,
    reserve_thousandths: u32,
    missing_share: Option<&'static str>,
    epoch_ms: u64,
    epoch_start_ms: Option<u64>,
    /// The time since the last synchronisation.
    synced_before_ms: Option<u64>,
    /// The weights of the policy with which the service was started.
    configured: DivisionBody,
    agreed: Option<AgreedBody>,
    pending: bool,
    awaited_votes: Option<Vec<String>>,
    borrowed_keys: u64,
    lent_keys: u64,
    reported_keys: u64,
    reports: u64,
    missed_reports: u64,
    second_instance_reports: u64,
    reads: u64,
    failures: FailuresBody,
}

#[derive(Debug, Serialize)]
struct DivisionBody {
    weights: BTreeMap<String, u32>,
    sync_ms: u64,
}

#[derive(Debug, Serialize)]
struct AgreedBody {
    #[serde(flatten)]
    division: DivisionBody,
    /// The start of the epoch from which it holds.
    from_ms: u64,
}

#[derive(Debug, Serialize)]
struct FailuresBody {
    global: u64,
    region: u64,
}

/// `GET /api/regions`: the state of the synchronisation with other regions; 404 without regions.
pub(super) async fn regions(State(engine): State<Arc<Engine>>) -> Result<Json<RegionStatusBody>, ProblemDetails> {
    let status = region_status(engine.limiter());
    status.map(|status| Json(RegionStatusBody::from(status))).ok_or_else(ProblemDetails::no_regions)
}

impl From<RegionStatus> for RegionStatusBody {
    fn from(status: RegionStatus) -> RegionStatusBody {
        let pending = status.is_division_pending();
        let from_ms = status.agreed_from_ms;
        RegionStatusBody {
            region: status.region,
            share_thousandths: status.share,
            reserve_thousandths: status.reserve,
            missing_share: status.missing_share.map(MissingShare::name),
            epoch_ms: ms(status.epoch),
            epoch_start_ms: status.epoch_start_ms,
            synced_before_ms: status.synced_before.map(ms),
            configured: status.configured.into(),
            agreed: status.agreed.map(|division| AgreedBody { division: division.into(), from_ms }),
            pending,
            awaited_votes: status.awaited_votes,
            borrowed_keys: status.borrowing_keys,
            lent_keys: status.lending_keys,
            reported_keys: status.reported_keys,
            reports: status.reports,
            missed_reports: status.missed_reports,
            second_instance_reports: status.second_instance_reports,
            reads: status.reads,
            failures: FailuresBody { global: status.global_failures, region: status.regional_failures },
        }
    }
}

impl From<RegionDivision> for DivisionBody {
    fn from(division: RegionDivision) -> DivisionBody {
        DivisionBody { weights: division.weights.into_iter().collect(), sync_ms: ms(division.epoch) }
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
