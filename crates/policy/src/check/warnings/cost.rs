//! Costs that nobody can pay, or that clients choose.

use tollgate_core::MAX_AMOUNT;

use super::super::problems::Problems;
use super::super::words::quoted;
use super::super::{capacity, codes};
use super::limit_place;
use crate::model::{Allowance, CostSource, Rule};
use crate::problem::Place;

pub(super) fn check(rule: &Rule, place: &Place, problems: &mut Problems) {
    above_limit(rule, place, problems);
    let CostSource::Header { name, .. } = &rule.cost.source else { return };
    let place = place.member("cost").member("header");
    let header = quoted(name);
    let message = format!("whoever sends {header} chooses what the request costs: clients will say 1");
    let hint = "let a proxy in front set the header, and remove what clients send";
    problems.add(codes::COST_FROM_CLIENT, place.clone(), message, hint);
    if rule.cost.max == MAX_AMOUNT {
        let message = format!("one request can use up a whole limit, as {header} may say any number");
        problems.add(codes::COST_WITHOUT_MAX, place, message, "add `max:`, the most that a request counts");
    }
}

/// A request that costs more than its limit holds is refused for ever. Where
/// that is so for all, it is an error.
fn above_limit(rule: &Rule, place: &Place, problems: &mut Problems) {
    let (_, most) = capacity::costs(rule);
    let limit = limit_place(&rule.allowance, place);
    let refused = |grant| capacity::of_grant(grant).filter(|holds| most > *holds);
    let hint = "lower the cost, or raise the limit or its burst";
    let mut add = |place: Place, holds: u64, whose: &str| {
        let message =
            format!("a request may cost {most}, and {whose} never holds more than {holds}: it is always refused");
        problems.add(codes::COST_ABOVE_LIMIT, place, message, hint);
    };
    match &rule.allowance {
        Allowance::Same(grant) => {
            if let Some(holds) = refused(grant) {
                add(limit, holds, "the limit");
            }
        }
        Allowance::Tiers(tiers) => {
            for (name, grant) in tiers {
                if let Some(holds) = refused(grant) {
                    add(limit.member(name), holds, &format!("the limit of the tier {}", quoted(name)));
                }
            }
        }
        Allowance::Deny => {}
    }
    for (at, own) in rule.overrides.iter().enumerate() {
        if let Some(holds) = refused(&own.grant) {
            add(place.member("overrides").item(at), holds, "this override");
        }
    }
}
