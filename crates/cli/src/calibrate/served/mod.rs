//! Calibration from what a running service has counted under its rules.

mod headroom;

use serde::Serialize;
use serde_json::Value;
use tollgate::Rate;
use tollgate_workbench::calibrate::{MIN_DECISIONS, ServedFinding, ServedRule};
use tollgate_workbench::rate_text;

use crate::arguments::OutputFormat;
use crate::colours::Colours;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::remote::{HttpCall, ServiceConnection, ServiceUrl};
use crate::workbench::table::{count, grouped, percent, printable};
use headroom::RuleHeadroom;

/// The share of the decisions that must pass, and the margin.
pub(super) struct ServedTarget {
    pub(super) share_ppm: u32,
    pub(super) margin_percent: u32,
}

#[derive(Serialize)]
struct ServedJson {
    admin: String,
    proposals: Vec<ServedProposal>,
}

#[derive(Serialize)]
struct ServedProposal {
    rule: String,
    key: Vec<String>,
    shadow: bool,
    /// `None` if the rule has several limits.
    limit: Option<String>,
    /// `None` if the figures do not support a limit.
    proposed: Option<String>,
    reason: String,
    evidence: ServedEvidence,
    near_limit: Value,
    offenders: Value,
}

#[derive(Serialize)]
struct ServedEvidence {
    decisions: u64,
    refused: u64,
    headroom: Vec<HeadroomJson>,
}

#[derive(Serialize)]
struct HeadroomJson {
    at_most_percent: u32,
    decisions: u64,
}

pub(super) fn calibrate(admin: &ServiceUrl, target: &ServedTarget, format: OutputFormat) -> Result<Exit, Failure> {
    let service = ServiceConnection::to_admin(admin.clone())?;
    let json = |path: &str| service.json(HttpCall::get(path));
    let metrics = service.body(HttpCall::get("/metrics"))?;
    let (rules, top, headroom) = (json("/api/rules")?, json("/api/top")?, headroom::read(&metrics));
    let rules = rules["rules"].as_array().cloned().unwrap_or_default();
    let proposal = |rule: &Value| {
        let name = rule["rule"].as_str()?;
        let top = top["rules"].as_array()?.iter().find(|top| top["rule"] == name).cloned().unwrap_or_default();
        Some(propose(name, rule, &top, headroom.get(name).cloned().unwrap_or_default(), target))
    };
    let proposals: Vec<ServedProposal> =
        rules.iter().filter(|rule| rule["deny"] != true).filter_map(proposal).collect();
    match format {
        OutputFormat::Json => output::print_json(&ServedJson { admin: admin.to_string(), proposals })?,
        OutputFormat::Text => output::print(&proposals.iter().map(block).collect::<Vec<_>>().join("\n"))?,
    }
    Ok(Exit::Done)
}

fn propose(name: &str, rule: &Value, top: &Value, headroom: RuleHeadroom, target: &ServedTarget) -> ServedProposal {
    let limit = only_limit(rule);
    let (proposed, reason) =
        match limit.as_deref().and_then(|limit| limit.parse::<Rate>().ok().map(|rate| (limit, rate))) {
            None => (
                None,
                "it has several limits, or none that counts requests: the headroom is of all together".to_owned(),
            ),
            Some((limit, rate)) => finding(limit, &rate, rule, &headroom, target),
        };
    ServedProposal {
        rule: name.to_owned(),
        key: rule["key"].as_array().into_iter().flatten().filter_map(|key| Some(key.as_str()?.to_owned())).collect(),
        shadow: rule["shadow"] == true,
        limit,
        proposed,
        reason,
        near_limit: top["near_limit"].clone(),
        offenders: top["offenders"].clone(),
        evidence: ServedEvidence {
            decisions: headroom.decisions,
            refused: headroom.refused,
            headroom: headroom
                .steps
                .into_iter()
                .map(|(at_most_percent, decisions)| HeadroomJson { at_most_percent, decisions })
                .collect(),
        },
    }
}

/// Returns the limit of a rule with one grant and one limit.
fn only_limit(rule: &Value) -> Option<String> {
    let [grant] = &rule["grants"].as_array()?[..] else { return None };
    let [limit] = &grant["limits"].as_array()?[..] else { return None };
    Some(limit["limit"].as_str()?.to_owned())
}

/// Returns the proposed limit, if there is one, and the reason.
fn finding(
    limit: &str,
    rate: &Rate,
    rule: &Value,
    headroom: &RuleHeadroom,
    target: &ServedTarget,
) -> (Option<String>, String) {
    let is_bucket = rule["grants"][0]["limits"][0]["algorithm"].as_str().is_some_and(|name| name.contains("bucket"));
    let capacity = if is_bucket { rate.burst_or_default() } else { rate.count() };
    let served = ServedRule { capacity, decisions: headroom.decisions, headroom: headroom.steps.clone() };
    match served.finding(target.share_ppm, target.margin_percent) {
        ServedFinding::TooFew => {
            let decisions = count(headroom.decisions, "decision");
            (None, format!("{decisions} are too few: expected at least {}", grouped(MIN_DECISIONS)))
        }
        ServedFinding::TooLow { used_up } => {
            let share = percent(used_up, headroom.decisions);
            (None, format!("{share} of the decisions used up the limit: try twice the limit as a shadow rule"))
        }
        ServedFinding::Enough { capacity: proposed, .. } if proposed == capacity => {
            (Some(limit.to_owned()), "the limit fits".to_owned())
        }
        ServedFinding::Enough { needed, capacity: proposed } => {
            let changed = if is_bucket { rate.with_burst(proposed) } else { Rate::new(proposed, rate.period()) };
            let reason = format!("enough decisions used at most {} of {}", grouped(needed), grouped(capacity));
            (changed.ok().map(|rate| rate_text(&rate)), reason)
        }
    }
}

fn block(proposal: &ServedProposal) -> String {
    let shadow = if proposal.shadow { " (shadow)" } else { "" };
    let heading = format!("{}{shadow}: {}", proposal.rule, proposal.limit.as_deref().unwrap_or("several limits"));
    let evidence = &proposal.evidence;
    let proposed = proposal.proposed.as_deref().unwrap_or("no proposal");
    let mut block = format!(
        "{}\n  proposed  {proposed}: {}\n  refused   {} of {}\n",
        Colours::of_stdout().heading(&heading),
        proposal.reason,
        grouped(evidence.refused),
        count(evidence.decisions, "decision"),
    );
    for step in &evidence.headroom {
        let share = percent(step.decisions, evidence.decisions);
        block.push_str(&format!("  {:>3} % or less remained after {share}\n", step.at_most_percent));
    }
    for (heading, clients) in [("near the limit", &proposal.near_limit), ("most refused", &proposal.offenders)] {
        let clients: Vec<String> = clients.as_array().into_iter().flatten().take(5).map(client).collect();
        if !clients.is_empty() {
            block.push_str(&format!("  {heading}: {}\n", clients.join(", ")));
        }
    }
    block
}

fn client(client: &Value) -> String {
    let name = printable(client["client"].as_str().unwrap_or_default());
    format!("{name} ({})", grouped(client["count"].as_u64().unwrap_or(0)))
}
