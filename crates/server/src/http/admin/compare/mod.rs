//! `POST /api/compare`: one limit under all algorithms, on generated or drawn traffic.
//!
//! The work of a call is bounded by the limit and the number of requests, and few calls run at once, beside the threads
//! that decide requests.

mod timeline;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use serde_json::Value;
use tollgate::Rate;
use tollgate_workbench::compare::Comparer;
use tollgate_workbench::traffic::{Arrival, TrafficPattern, drawn_arrivals};

use super::AdminState;
use crate::http::comparison_body::ComparisonBody;
use crate::http::connection::HttpCaller;
use crate::http::problem::ProblemDetails;
use crate::http::strict_json::BodyMembers;
use timeline::{Timeline, TimelineBody};

/// The most comparisons at once.
pub(super) const MAX_COMPARISONS: usize = 2;

/// The largest limit.
const MAX_LIMIT: u64 = 500;

/// The most requests of generated traffic, some milliseconds of work for each algorithm. Random traffic ends earlier.
const MAX_REQUESTS: usize = 65_000;

/// Drawn traffic: the slots of two windows, and the most requests in all of them.
const SLOTS_PER_WINDOW: u64 = 8;
const MAX_SLOTS: usize = 16;
const MAX_DRAWN: u64 = 5_000;

const MAX_BODY_BYTES: usize = 4 << 10;

const MEMBERS: [&str; 3] = ["limit", "traffic", "drawn"];
const EXPECTED_TRAFFIC: &str = "boundary, burst, steady or poisson, unless `drawn` has the traffic";
const EXPECTED_DRAWN: &str =
    "a list of at most 16 numbers, the requests in each eighth of a window, and at most 5000 in all";

#[derive(Serialize)]
pub(super) struct ComparedBody {
    #[serde(flatten)]
    figures: ComparisonBody,
    timeline: TimelineBody,
}

/// What to compare.
struct ComparisonRequest {
    rate: Rate,
    traffic: RequestedTraffic,
}

enum RequestedTraffic {
    Pattern(TrafficPattern),
    Drawn(Vec<u64>),
}

pub(super) async fn compare(
    State(admin): State<AdminState>,
    Extension(caller): Extension<Arc<HttpCaller>>,
    body: Body,
) -> Result<Json<ComparedBody>, ProblemDetails> {
    let request = ComparisonRequest::parse(&caller.read_body(body, MAX_BODY_BYTES).await?)?;
    let comparer = Comparer::new(request.rate)
        .map_err(|error| ProblemDetails::bad_member("limit", &format!("possible under every algorithm: {error}")))?;
    let slot = admin.comparisons.try_acquire_owned().map_err(|_| ProblemDetails::too_many_comparisons())?;
    let compared = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        request.run(comparer)
    });
    compared.await.map(Json).map_err(|_| ProblemDetails::too_many_comparisons())
}

impl ComparisonRequest {
    fn parse(body: &[u8]) -> Result<ComparisonRequest, ProblemDetails> {
        let members = BodyMembers::parse(body, &MEMBERS)?;
        let text = members.get("limit").and_then(Value::as_str);
        let rate: Option<Rate> = text.and_then(|text| text.parse().ok());
        let is_small = |rate: &Rate| rate.count() <= MAX_LIMIT && rate.burst().is_none_or(|burst| burst <= MAX_LIMIT);
        let rate = rate.filter(is_small).ok_or_else(|| {
            ProblemDetails::bad_member("limit", "a limit of at most 500 in a period, such as \"100/min\"")
        })?;
        let traffic = match (members.get("traffic"), members.get("drawn")) {
            (None, Some(drawn)) => RequestedTraffic::Drawn(drawn_counts(drawn)?),
            (Some(name), None) => RequestedTraffic::Pattern(pattern(name)?),
            _ => return Err(ProblemDetails::bad_member("traffic", EXPECTED_TRAFFIC)),
        };
        Ok(ComparisonRequest { rate, traffic })
    }

    fn run(&self, mut comparer: Comparer) -> ComparedBody {
        let arrivals = self.arrivals();
        let mut timeline = match &self.traffic {
            RequestedTraffic::Pattern(_) => Timeline::around(&arrivals, &self.rate),
            RequestedTraffic::Drawn(_) => {
                Timeline::of_windows(&self.rate, MAX_SLOTS as u64 / SLOTS_PER_WINDOW, MAX_SLOTS as u64)
            }
        };
        for arrival in &arrivals {
            timeline.add(arrival, comparer.arrival(arrival));
        }
        let comparison = comparer.finish();
        ComparedBody { timeline: timeline.body(&comparison), figures: ComparisonBody::from(&comparison) }
    }

    fn arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = match &self.traffic {
            RequestedTraffic::Pattern(pattern) => pattern.arrivals(&self.rate).unwrap_or_default(),
            RequestedTraffic::Drawn(counts) => drawn_arrivals(&self.rate, SLOTS_PER_WINDOW, counts),
        };
        arrivals.truncate(MAX_REQUESTS);
        arrivals
    }
}

fn pattern(name: &Value) -> Result<TrafficPattern, ProblemDetails> {
    match name.as_str() {
        Some("boundary") => Ok(TrafficPattern::Boundary),
        Some("burst") => Ok(TrafficPattern::Burst),
        Some("steady") => Ok(TrafficPattern::Steady),
        Some("poisson") => Ok(TrafficPattern::Poisson),
        _ => Err(ProblemDetails::bad_member("traffic", EXPECTED_TRAFFIC)),
    }
}

fn drawn_counts(drawn: &Value) -> Result<Vec<u64>, ProblemDetails> {
    let counts: Option<Vec<u64>> = drawn.as_array().and_then(|counts| counts.iter().map(Value::as_u64).collect());
    let is_small = |counts: &Vec<u64>| {
        let sum = counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        counts.len() <= MAX_SLOTS && sum <= MAX_DRAWN
    };
    counts.filter(is_small).ok_or_else(|| ProblemDetails::bad_member("drawn", EXPECTED_DRAWN))
}
