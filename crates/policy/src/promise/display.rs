//! A promise in plain words.

use std::fmt;

use super::words::{algorithm, beyond_limit, limit, list, number, requests, span, time};
use super::{Blocked, Bound, Debt, GrantPromise, LimitPromise, Most, Promise, Share, Unit, Warned, Whose};
use crate::model::OnFailure;

const S_NS: u64 = 1_000_000_000;

/// What is said of a rule that is only watched.
const SHADOW: &str = "\n  refuses nobody: a shadow, counted and reported";

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.deny {
            let what = if self.shadow { "would be denied with 403" } else { "denied with 403, and nothing is charged" };
            write!(f, "{}: {what}", self.rule)?;
            self.write_when(f)?;
            return if self.shadow { f.write_str(SHADOW) } else { Ok(()) };
        }
        write!(f, "{}: {}", self.rule, self.counted())?;
        self.write_when(f)?;
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
        match self.on_failure {
            Some(OnFailure::Open) => f.write_str("\n  while the store fails, everything passes"),
            Some(OnFailure::Closed) => f.write_str("\n  while the store fails, nothing passes"),
            Some(OnFailure::Local) => {
                f.write_str("\n  while the store fails, each instance counts on its own: an outage adds at most that, times the number of instances")
            }
            None => Ok(()),
        }
    }
}

/// What settling above the estimate adds.
fn owed(debt: Debt, period_ns: u64) -> String {
    if debt.most == 0 {
        return "what is settled above its estimate is charged as far as it fits; the rest is lost".to_owned();
    }
    let within = span(period_ns);
    let wait =
        debt.longest_refusal_ns.map_or_else(String::new, |ns| format!(", a refusal then lasts at most {}", time(ns)));
    format!(
        "what is settled above its estimate is owed, at most {}: with it a cost of at most {} is charged in any {within}{wait}; \
         what cannot be owed is lost",
        number(debt.most),
        number(debt.charged_in_period),
    )
}

impl Promise {
    /// Which requests it is for, unless it is for all.
    fn write_when(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.when.is_empty() {
            return Ok(());
        }
        write!(f, "\n  when {}", self.when.join("; "))
    }

    fn counted(&self) -> String {
        if self.key.is_empty() { "for everybody together".to_owned() } else { format!("for each {}", list(&self.key)) }
    }

    fn block(&self, blocked: Blocked) -> String {
        let beyond = format!("after {} beyond the limit within {}", requests(blocked.after), time(blocked.within_ns));
        let length = time(blocked.for_ns);
        if self.key.is_empty() {
            return format!("{beyond} everybody is blocked for {length}");
        }
        format!("whoever goes on {beyond} is blocked for {length}")
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
        match &promised.share {
            Some(share) => write!(f, "\n    {}", self.share(share)),
            None => Ok(()),
        }
    }

    fn bound(&self, bound: &Bound, period_ns: u64) -> String {
        match *bound {
            Bound::Spans { in_period, in_second } => {
                format!("at most {}", self.in_spans(in_period, period_ns, in_second))
            }
            Bound::Queue { in_period, in_second, unheld_in_period, unheld_in_second, places, longest_wait_ns } => {
                format!(
                    "at most {} leave the queue ({} over RESP and Envoy, where no answer is held back); \
                 it holds {}, and the wait is at most {}",
                    self.in_spans(in_period, period_ns, in_second),
                    self.in_spans(unheld_in_period, period_ns, unheld_in_second),
                    number(places),
                    time(longest_wait_ns)
                )
            }
            Bound::AtOnce { permits, warned, lease_ns } => {
                let held = match lease_ns {
                    Some(lease_ns) => format!("one that is never released counts for {}", time(lease_ns)),
                    None => "one that is never released counts for ever".to_owned(),
                };
                format!("at most {}; {held}", at_once(permits, warned))
            }
        }
    }

    fn in_spans(&self, in_period: Most, period_ns: u64, in_second: Most) -> String {
        let period = format!("{} in any {}", self.most(in_period, true), span(period_ns));
        match period_ns {
            S_NS => period,
            _ => format!("{period}, {} in any second", self.most(in_second, false)),
        }
    }

    /// An amount; with what it counts where that is not clear yet.
    fn most(&self, most: Most, with_unit: bool) -> String {
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

    fn share(&self, share: &Share) -> String {
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

    /// Whether nobody gets anything else, so that nobody needs to be named.
    fn is_only(&self, grant: &GrantPromise) -> bool {
        self.grants.len() == 1 && grant.whose.contains(&Whose::Everybody)
    }

    /// `everybody else`, `tiers free and basic`, `user 42`
    fn names(&self, whose: &[Whose]) -> String {
        let tiers: Vec<String> = whose
            .iter()
            .filter_map(|whose| match whose {
                Whose::Tier(tier) => Some(tier.clone()),
                Whose::Everybody | Whose::Keys(_) => None,
            })
            .collect();
        let mut names = Vec::new();
        if !tiers.is_empty() {
            names.push(format!("tier{} {}", if tiers.len() == 1 { "" } else { "s" }, list(&tiers)));
        }
        names.extend(whose.iter().filter_map(|whose| match whose {
            Whose::Everybody => Some("everybody else".to_owned()),
            Whose::Keys(patterns) => Some(self.key_name(patterns)),
            Whose::Tier(_) => None,
        }));
        names.join("; ")
    }

    fn key_name(&self, patterns: &[String]) -> String {
        let parts = self.key.iter().zip(patterns).map(|(identity, pattern)| format!("{identity} {pattern}"));
        list(&parts.collect::<Vec<_>>())
    }
}

/// `3 requests at once`, and how many of them hold no permit.
fn at_once(permits: u64, warned: Option<Warned>) -> String {
    let Some(Warned { first, within_ns }) = warned else { return format!("{} at once", requests(permits)) };
    let (total, first, within) = (requests(permits.saturating_add(first)), number(first), time(within_ns));
    format!(
        "{total} at once, {first} of them with a warning, if what is warned ends within {within}: it holds no permit"
    )
}
