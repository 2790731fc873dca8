use tollgate_core::MAX_AMOUNT;

use super::periods::grants;
use super::problems::Problems;
use super::{capacity, codes, syntax};
use crate::model::{CostSource, Rule};
use crate::problem::Place;

pub(super) fn check(rule: &Rule, place: &Place, problems: &mut Problems) {
    let mut amount = |value: u64, place: Place| syntax::range(value, 1, MAX_AMOUNT, "a cost", place, problems);
    amount(rule.cost.max, place.member("max"));
    match &rule.cost.source {
        CostSource::OfTheRequest => {}
        CostSource::Fixed(cost) => amount(*cost, place.clone()),
        CostSource::Estimate(cost) => amount(*cost, place.member("estimate")),
        CostSource::Header { default, name } => {
            amount(*default, place.member("default"));
            syntax::header(name, place.member("header"), problems);
        }
        CostSource::Methods { costs, default } => {
            amount(*default, place.member("default"));
            for (method, cost) in costs {
                let place = place.member("method").member(method);
                syntax::range(*cost, 1, MAX_AMOUNT, "a cost", place.clone(), problems);
                syntax::method(method, place, problems);
            }
        }
    }
    if let Some(name) = &rule.cost.settled_by {
        syntax::header(name, place.member("settle"), problems);
    }
    never_fits(rule, place, problems);
}

/// A request that costs more than anybody can have is refused for ever.
fn never_fits(rule: &Rule, place: &Place, problems: &mut Problems) {
    let (least, _) = capacity::costs(rule);
    let all = grants(&rule.allowance).chain(rule.overrides.iter().map(|own| &own.grant));
    let largest = all.map(|grant| capacity::of_grant(grant).unwrap_or(u64::MAX)).max();
    if let Some(largest) = largest.filter(|largest| least > *largest) {
        let message = format!("every request costs at least {least}, and the limit never holds more than {largest}");
        let hint = "lower the cost, or raise the limit or its burst, as in 60/min burst 100";
        problems.add(codes::COST_NEVER_FITS, place.clone(), message, hint);
    }
}
