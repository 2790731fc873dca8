//! From the calls of a rule's builder to a rule, with what is wrong about the calls themselves.
//!
//! A file says each member once, and the reader refuses those that exclude each other. Calls can say the same, so the
//! same is refused here, in the same words. What concerns the finished rule is checked with the policy.

use tollgate_core::{AlgorithmKind, Quota, QuotaError, Rate};

use super::RuleBuilder;
use crate::check::words::either;
use crate::check::{codes, members};
use crate::model::{Allowance, DEFAULT_LEASE, Grant, Rule, quota_of};
use crate::problem::{Place, Problem};

const UNLIMITED: &str = "unlimited";

/// Calls of which the last would win.
const ONCE: [&str; 7] = ["concurrency", "algorithm", "queue", "max_debt", "when", "cost", "on_limit"];

pub(super) fn finish(builder: RuleBuilder, place: &Place, problems: &mut Vec<Problem>) -> Rule {
    let before = problems.len();
    let mut finishing = Finishing { builder: &builder, place, problems };
    finishing.repeated();
    let granting = finishing.granting();
    finishing.misplaced(granting);
    let allowance = finishing.allowance(granting);
    let mut rule = Rule { allowance, ..builder.rule };
    if problems.len() > before {
        // Steps beyond a limit that could not be read are no mistake of their own.
        rule.on_limit = None;
    }
    rule
}

struct Finishing<'b> {
    builder: &'b RuleBuilder,
    place: &'b Place,
    problems: &'b mut Vec<Problem>,
}

impl Finishing<'_> {
    fn repeated(&mut self) {
        let said = &self.builder.said;
        for member in ONCE.into_iter().filter(|once| said.iter().filter(|said| *said == once).count() > 1) {
            self.wrong(codes::DUPLICATE_MEMBER, member, members::twice(member));
        }
        // Called in the other order, they add to it.
        let when = said.iter().rposition(|said| *said == "when").unwrap_or(0);
        if let Some(lost) = said[..when].iter().find(|said| matches!(**said, "path" | "method")) {
            let message = format!("`when` is there twice: `.when(..)` replaces what `.{lost}(..)` said before it");
            let hint = format!("call `.{lost}(..)` after `.when(..)`, or put it into the `When`");
            self.wrong(codes::DUPLICATE_MEMBER, "when", (message, hint));
        }
    }

    /// The member that says how much is granted. There must be one, and no other.
    fn granting(&mut self) -> Option<&'static str> {
        let mut granting = self.builder.said.iter().copied().filter(|said| members::GRANTS.contains(said));
        let one = granting.next();
        let other = granting.find(|other| Some(*other) != one);
        match (one, other) {
            (None, _) => {
                self.problem(codes::CHOOSE_ONE, self.place.clone(), members::none_of("this rule", members::GRANTS));
            }
            (Some(one), Some(other)) => {
                self.wrong(codes::CHOOSE_ONE, other, members::one_beside(other, one, members::GRANTS));
            }
            (Some(_), None) => {}
        }
        one
    }

    fn misplaced(&mut self, granting: Option<&str>) {
        let RuleBuilder { said, algorithm, queue, .. } = self.builder;
        let is_of_rates = !matches!(granting, Some("concurrency" | "deny"));
        match (algorithm, queue) {
            (Some(AlgorithmKind::Concurrency), _) if is_of_rates => {
                let known = either(members::ALGORITHMS.iter().map(|(name, _)| *name));
                let message = format!("expected {known}, found `{}`", AlgorithmKind::Concurrency);
                let hint = "say `.concurrency(..)` instead of `.limit(..)` to limit how many requests are in flight";
                return self.wrong(codes::UNKNOWN_WORD, "algorithm", (message, hint.to_owned()));
            }
            (Some(AlgorithmKind::LeakyQueue), None) if is_of_rates => {
                let hint = "add `.queue(size, max_wait)`, or choose the leaky bucket";
                let message = "`queue` is missing in this rule".to_owned();
                self.wrong(codes::MISSING_MEMBER, "queue", (message, hint.to_owned()));
            }
            _ => {}
        }
        for (member, wrong) in members::misplaced(granting.unwrap_or("limit"), *algorithm, |name| said.contains(&name))
        {
            self.wrong(codes::MISPLACED_MEMBER, member, wrong);
        }
    }

    fn allowance(&mut self, granting: Option<&str>) -> Allowance {
        let builder = self.builder;
        match granting {
            Some("deny") => Allowance::Deny,
            Some("concurrency") => {
                let permits = Quota::concurrency(builder.permits.unwrap_or(0), Some(DEFAULT_LEASE));
                Allowance::Same(
                    self.built(permits, self.place.member("concurrency"))
                        .map_or(Grant::Unlimited, |quota| Grant::Limited(vec![quota])),
                )
            }
            Some("tiers") => {
                let tiers = builder.tiers.iter().map(|(tier, rate)| {
                    let place = self.place.member("tiers").member(tier);
                    (tier.clone(), self.grant(std::slice::from_ref(rate), &place))
                });
                Allowance::Tiers(tiers.collect())
            }
            _ => Allowance::Same(self.grant(&builder.rates, &self.place.member("limit"))),
        }
    }

    /// One rate or `unlimited`, or several rates. What cannot be read is told.
    fn grant(&mut self, rates: &[String], place: &Place) -> Grant {
        match rates {
            [only] if only.trim().eq_ignore_ascii_case(UNLIMITED) => Grant::Unlimited,
            [] => Grant::Unlimited,
            rates => {
                let quotas: Vec<Quota> = rates.iter().filter_map(|rate| self.quota(rate, place)).collect();
                if quotas.is_empty() { Grant::Unlimited } else { Grant::Limited(quotas) }
            }
        }
    }

    fn quota(&mut self, rate: &str, place: &Place) -> Option<Quota> {
        let rate = rate.parse::<Rate>().map_err(|error| {
            let message = format!("not a rate: {}", error.expected());
            self.problem(codes::BAD_RATE, place.clone(), (message, String::new()));
        });
        let RuleBuilder { algorithm, queue, max_debt, .. } = *self.builder;
        // A queue alone says that the bucket is a leaky one.
        let implied = if queue.is_some() { AlgorithmKind::LeakyBucket } else { AlgorithmKind::TokenBucket };
        self.built(quota_of(rate.ok()?, algorithm.unwrap_or(implied), queue, max_debt), place.clone())
    }

    fn built(&mut self, quota: Result<Quota, QuotaError>, place: Place) -> Option<Quota> {
        quota.map_err(|error| self.problem(codes::BAD_QUOTA, place, (error.to_string(), String::new()))).ok()
    }

    fn wrong(&mut self, code: &'static str, member: &str, said: members::Said) {
        self.problem(code, self.place.member(member), said);
    }

    fn problem(&mut self, code: &'static str, place: Place, (message, hint): members::Said) {
        self.problems.push(Problem::new(code, place, message, hint));
    }
}
