//! Formats promises as text.

use std::fmt;

use tollgate_core::{AlgorithmKind, NotLeased, Quota, TokenLease};

use super::words::{algorithm, beyond_limit, limit, list, number, requests, span, time};
use super::{
    AdmissionBound, Blocked, DebtBound, FallbackShare, GrantPromise, GrantedTo, LeaseBound, LimitPromise, MostAdmitted,
    Promise, RegionBound, RegionalBound, Unit, Warned,
};
use crate::model::FailureMode;

const S_NS: u64 = 1_000_000_000;

/// The line about a shadow rule.
const SHADOW: &str = "\n  shadow: counted and reported, never refused";

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.deny {
            let what = if self.shadow { "would be denied with 403" } else { "denied with 403, nothing is charged" };
            write!(f, "{}: {what}", self.rule)?;
            self.write_when(f)?;
            return if self.shadow { f.write_str(SHADOW) } else { Ok(()) };
        }
        write!(f, "{}: {}", self.rule, self.counted())?;
        self.write_when(f)?;
        if let Some(budget) = &self.budget {
            write!(f, "\n  charges the budget {budget}: the figures are for all its rules together")?;
        }
        if self.shadow {
            f.write_str(SHADOW)?;
        }
        for grant in &self.grants {
            self.write_grant(f, grant)?;
        }
        if self.shadow {
            return Ok(());
        }
        if let Some(blocked) = self.blocked {
            write!(f, "\n  {}", self.block(blocked))?;
        }
        self.write_leases(f)?;
        self.write_regions(f)?;
        match self.on_failure {
            Some(FailureMode::Open) => f.write_str("\n  while the store fails, all requests pass"),
            Some(FailureMode::Closed) => f.write_str("\n  while the store fails, all requests are refused"),
            Some(FailureMode::Local) => {
                f.write_str("\n  while the store fails, each instance counts alone: an outage adds at most its share, times the number of instances")
            }
            None => Ok(()),
        }
    }
}

fn is_window(quota: &Quota) -> bool {
    !matches!(quota.kind(), AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket)
}

/// Describes the leases of a limit.
fn leased(lease: Result<LeaseBound, NotLeased>) -> String {
    match lease {
        Ok(LeaseBound { most, .. }) => format!(
            "leased: other instances can hold up to {most} tokens, and refusals last longer meanwhile; a failover, an \
             eviction or a forward step of the server's clock admits at most {most} more than in exact mode",
            most = number(most)
        ),
        Err(NotLeased::Slow) => {
            let least = TokenLease::MIN_PER_SECOND;
            format!("exact: a limit below {least} a second is not leased, so the store decides every request")
        }
        Err(NotLeased::Small | NotLeased::Algorithm) => {
            "exact: the limit is too small for leases, so the store decides every request".to_owned()
        }
    }
}

/// Describes what a region enforces.
fn enforced(region: &RegionBound) -> String {
    let lost = match (region.server_failover, region.restart) {
        (Some(more), _) => format!("; a failover of the region's server admits at most {} more", number(more)),
        (None, Some(more)) => format!(
            "; a restart of its instance admits at most {} more, and until the global server has answered, the region \
             enforces its share alone",
            number(more)
        ),
        (None, None) => String::new(),
    };
    format!(
        "burst {} and {} of the rate, with loans up to {}; at least {}, also for a key that is new to the region{lost}",
        number(region.burst),
        percent(region.share_thousandths),
        percent(region.with_loans_thousandths),
        percent(region.reserve_thousandths),
    )
}

/// Formats thousandths as `50%` or `2.5%`.
fn percent(thousandths: u32) -> String {
    match thousandths % 10 {
        0 => format!("{}%", thousandths / 10),
        tenth => format!("{}.{tenth}%", thousandths / 10),
    }
}

/// Describes the debt from costs that are settled above their estimate.
fn owed(debt: DebtBound, period_ns: u64) -> String {
    if debt.most == 0 {
        return "cost settled above its estimate is charged as far as it fits; the rest is not charged".to_owned();
    }
    let within = span(period_ns);
    let wait =
        debt.longest_refusal_ns.map_or_else(String::new, |ns| format!(", a refusal then lasts at most {}", time(ns)));
    format!(
        "cost settled above its estimate becomes debt, at most {}: with it a cost of at most {} is charged in any {within}{wait}; \
         cost beyond the debt is not charged",
        number(debt.most),
        number(debt.charged_in_period),
    )
}

impl Promise {
    /// Writes the conditions, if there are any.
    fn write_when(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.when.is_empty() {
            return Ok(());
        }
        write!(f, "\n  when {}", self.when.join("; "))
    }

    /// Writes what holds for all leases of the rule, if any of its limits are leased.
    fn write_leases(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.grants.iter().flat_map(|grant| &grant.limits);
        let mut leased = limits.filter_map(|limit| Some((&limit.quota, limit.lease?.ok()?))).peekable();
        let Some(&(_, lease)) = leased.peek() else { return Ok(()) };
        let until = if leased.any(|(quota, _)| is_window(quota)) { ", and until their window ends" } else { "" };
        write!(
            f,
            "\n  leases keep these bounds; tokens of an instance that fails count as spent within {}{until}; a key \
             with fewer than {} requests a second at an instance stays exact",
            time(lease.expires_ns),
            TokenLease::MIN_PER_SECOND
        )
    }

    /// Writes what holds for all regional limits of the rule, or that regions do not divide its limits.
    fn write_regions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_in_each_region {
            f.write_str("\n  each region enforces this by itself: the figures are for one region")?;
        }
        let Some(epoch_ns) = self.epoch_ns else { return Ok(()) };
        write!(
            f,
            "\n  regions lend rates for epochs of {}; without the global server, each enforces at most its share",
            time(epoch_ns)
        )
    }

    fn counted(&self) -> String {
        if self.key.is_empty() {
            "for all clients together".to_owned()
        } else {
            format!("for each {}", list(&self.key))
        }
    }

    fn block(&self, blocked: Blocked) -> String {
        let whose = if self.key.is_empty() { "all clients" } else { "the key" };
        format!(
            "after {} above the limit within {}, the next one blocks {whose} for {}",
            requests(blocked.after),
            time(blocked.within_ns),
            time(blocked.for_ns)
        )
    }

    fn write_grant(&self, f: &mut fmt::Formatter<'_>, grant: &GrantPromise) -> fmt::Result {
        let whose = if self.is_only(grant) { String::new() } else { format!("{}: ", self.names(&grant.whose)) };
        if grant.is_unlimited() {
            return write!(f, "\n  {whose}unlimited");
        }
        for promised in &grant.limits {
            write!(f, "\n  {whose}{}, {}", limit(&promised.quota), algorithm(&promised.quota))?;
            if !self.shadow {
                self.write_figures(f, promised)?;
            }
        }
        Ok(())
    }

    fn write_figures(&self, f: &mut fmt::Formatter<'_>, promised: &LimitPromise) -> fmt::Result {
        write!(f, "\n    {}", self.bound(&promised.bound, promised.quota.period_ns()))?;
        if let Some(why) = beyond_limit(&promised.quota) {
            write!(f, "\n    {why}")?;
        }
        if let Some(refusal) = self.refusal(promised.longest_refusal_ns, promised.refusal_cost) {
            write!(f, "\n    {refusal}")?;
        }
        if let Some(largest) = promised.never_above {
            write!(f, "\n    a request that costs more than {} never passes", number(largest))?;
        }
        if let Some(debt) = promised.debt {
            write!(f, "\n    {}", owed(debt, promised.quota.period_ns()))?;
        }
        if let Some(share) = &promised.share {
            write!(f, "\n    {}", self.share(share))?;
        }
        if let Some(lease) = promised.lease {
            write!(f, "\n    {}", leased(lease))?;
        }
        match &promised.regional {
            Some(regional) => self.write_regional(f, regional),
            None => Ok(()),
        }
    }

    fn write_regional(&self, f: &mut fmt::Formatter<'_>, regional: &RegionalBound) -> fmt::Result {
        let more = number(regional.global_failover);
        write!(
            f,
            "\n    regional: these bounds are for all regions together; a failover of the global server or a step of its clock \
             admits at most {more} more"
        )?;
        for region in &regional.regions {
            write!(f, "\n    {}: {}", region.region, enforced(region))?;
            if let Some(share) = &region.fallback {
                write!(f, "\n      {}", self.share(share))?;
            }
        }
        Ok(())
    }

    fn bound(&self, bound: &AdmissionBound, period_ns: u64) -> String {
        match *bound {
            AdmissionBound::Spans { in_period, in_second } => {
                format!("at most {}", self.in_spans(in_period, period_ns, in_second))
            }
            AdmissionBound::Queue {
                in_period,
                in_second,
                unheld_in_period,
                unheld_in_second,
                places,
                longest_wait_ns,
            } => {
                format!(
                    "at most {} leave the queue ({} over RESP and Envoy, where responses are not delayed); \
                 it holds {}, and the wait is at most {}",
                    self.in_spans(in_period, period_ns, in_second),
                    self.in_spans(unheld_in_period, period_ns, unheld_in_second),
                    number(places),
                    time(longest_wait_ns)
                )
            }
            AdmissionBound::AtOnce { permits, warned, lease_ns } => {
                let held = match lease_ns {
                    Some(lease_ns) => format!("a permit that is not released expires after {}", time(lease_ns)),
                    None => "a permit that is not released never expires".to_owned(),
                };
                format!("at most {}; {held}", at_once(permits, warned))
            }
        }
    }

    fn in_spans(&self, in_period: MostAdmitted, period_ns: u64, in_second: MostAdmitted) -> String {
        let period = format!("{} in any {}", self.most(in_period, true), span(period_ns));
        match period_ns {
            S_NS => period,
            _ => format!("{period}, {} in any second", self.most(in_second, false)),
        }
    }

    /// Formats an amount, with its unit if `with_unit`.
    fn most(&self, most: MostAdmitted, with_unit: bool) -> String {
        let warned = |text: String| match most.warned {
            0 => text,
            warned => format!("{text} ({} of them with a warning)", number(warned)),
        };
        match (self.unit, with_unit) {
            (Unit::Requests, true) => warned(requests(most.total())),
            (Unit::Requests, false) => warned(number(most.total())),
            (Unit::Cost, _) if most.warned > 0 => {
                format!("a cost of {} and {} with a warning", number(most.charged), requests(most.warned))
            }
            (Unit::Cost, true) => format!("a cost of {}", number(most.charged)),
            (Unit::Cost, false) => number(most.charged),
        }
    }

    fn share(&self, share: &FallbackShare) -> String {
        let bound = self.bound(&share.bound, share.quota.period_ns());
        let refusal = self.refusal(share.longest_refusal_ns, share.refusal_cost);
        let refusal = refusal.map_or_else(String::new, |refusal| format!("; {refusal}"));
        format!("while the store fails: {}, {bound}{refusal}", limit(&share.quota))
    }

    /// `a refusal lasts at most 30s, at a cost of 5`
    fn refusal(&self, longest_ns: Option<u64>, cost: u64) -> Option<String> {
        let longest = format!("a refusal lasts at most {}", time(longest_ns?));
        Some(if self.says_cost { format!("{longest}, at a cost of {}", number(cost)) } else { longest })
    }

    /// Whether the grant is the only one, so that its clients need not be named.
    fn is_only(&self, grant: &GrantPromise) -> bool {
        self.grants.len() == 1 && grant.whose.contains(&GrantedTo::Everybody)
    }

    /// `all other clients`, `tiers free and basic`, `user 42`
    fn names(&self, whose: &[GrantedTo]) -> String {
        let tiers: Vec<String> = whose
            .iter()
            .filter_map(|whose| match whose {
                GrantedTo::Tier(tier) => Some(tier.clone()),
                GrantedTo::Everybody | GrantedTo::Keys(_) => None,
            })
            .collect();
        let mut names = Vec::new();
        if !tiers.is_empty() {
            names.push(format!("tier{} {}", if tiers.len() == 1 { "" } else { "s" }, list(&tiers)));
        }
        names.extend(whose.iter().filter_map(|whose| match whose {
            GrantedTo::Everybody => Some("all other clients".to_owned()),
            GrantedTo::Keys(patterns) => Some(self.key_name(patterns)),
            GrantedTo::Tier(_) => None,
        }));
        names.join("; ")
    }

    fn key_name(&self, patterns: &[String]) -> String {
        let parts = self.key.iter().zip(patterns).map(|(identity, pattern)| format!("{identity} {pattern}"));
        list(&parts.collect::<Vec<_>>())
    }
}

/// Formats the requests at once, and how many of them hold no permit: `3 requests at once`.
fn at_once(permits: u64, warned: Option<Warned>) -> String {
    let Some(Warned { first, within_ns }) = warned else { return format!("{} at once", requests(permits)) };
    let (total, first, within) = (requests(permits.saturating_add(first)), number(first), time(within_ns));
    format!(
        "{total} at once, {first} of them with a warning and without a permit, if warned requests end within {within}"
    )
}
