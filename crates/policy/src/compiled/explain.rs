//! A request explained: which rules match it, and why the others do not.

use std::net::IpAddr;

use crate::compiled::identity::{Found, RequestValues};
use crate::compiled::key::key_bytes::Keys;
use crate::compiled::matching::NoKey;
use crate::compiled::matching::matcher::Index;
use crate::compiled::{Access, CompiledPolicy, CompiledRule, lossy};
use crate::model::{Condition, TextPattern};
use crate::promise::words::networks;
use crate::request::Request;

/// What a plan makes of a request, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// How it fares before any limit: a rule that denies counts here as a list does.
    pub access: Access,
    /// The entry of a list that decided, such as `client_ip 192.0.2.0/24`, or the rule that denies, as `rule NAME`.
    pub decided_by: Option<String>,
    /// Whose request it is taken for, by address.
    pub client_ip: Option<IpAddr>,
    /// The path in its first reading, the most resolved one; `None` where it is not known.
    pub path: Option<String>,
    /// All readings of the path, that one first: what limits applies in any of them, what exempts only in all.
    pub readings: Vec<String>,
    /// The identities that are present, by name, with their values.
    pub identities: Vec<(String, String)>,
    /// The tier.
    pub tier: Option<String>,
    /// Each rule in turn. Empty where a list decides.
    pub rules: Vec<ExplainedRule>,
}

/// One rule of an [`Explanation`].
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedRule {
    /// Its position among [`CompiledPolicy::rules`](crate::CompiledPolicy::rules).
    pub rule: u32,
    /// Its name.
    pub name: String,
    /// Whether it applies.
    pub outcome: RuleOutcome,
}

/// Whether a rule applies, and how.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleOutcome {
    /// It does.
    Applies(Application),
    /// It does not.
    NotApplied {
        /// Why, in words.
        reason: String,
    },
}

/// How a rule applies to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// The key; empty where everybody is counted together.
    pub key: String,
    /// Other keys that are charged as well, because the path read in another way gives another part of it.
    pub more_keys: Vec<String>,
    /// The reading of the path in which it applies, where there are several.
    pub read_as: Option<String>,
    /// The quotas, as positions among [`CompiledPolicy::quotas`](crate::CompiledPolicy::quotas). None: unlimited.
    pub quotas: Vec<u32>,
    /// Whether the rule denies the request. Nothing is charged then.
    pub denies: bool,
    /// What the request costs.
    pub cost: u64,
    /// The pattern that the path matched.
    pub route: Option<String>,
    /// Where the grant comes from.
    pub grant: GrantSource,
}

/// Where a grant comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantSource {
    /// It is the rule's own, the same for everybody.
    Rule,
    /// It is that of this tier.
    Tier(String),
    /// It is that of an override for this pattern.
    Override(String),
}

impl Application {
    /// Whether it passes, and nothing is charged.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.quotas.is_empty() && !self.denies
    }
}

/// What the rules make of one reading of the path.
struct Reading {
    /// The rules whose conditions hold, in order.
    matching: Vec<u32>,
    /// The rules that are replaced, each with the one that does it.
    replaced: Vec<(u32, u32)>,
}

impl CompiledPolicy {
    /// Which rules a request matches, and why, for people.
    #[must_use]
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        let mut values = self.values(request);
        let access = self.access_in_each(&mut values);
        let decided_by = (0..values.reading_count()).find_map(|reading| self.decided_by(access, reading, &mut values));
        let rules = if access == Access::Rules { self.explain_rules(&mut values) } else { Vec::new() };
        let denying = rules.iter().find(|rule| self.is_denied_by(rule)).map(|rule| format!("rule {}", rule.name));
        let is_open = access == Access::Rules && denying.is_none();
        let refused = if is_open { self.refused_token(&mut values) } else { None };
        let access = match (&denying, &refused) {
            (Some(_), _) => Access::Denied,
            (None, Some(_)) => Access::Unauthorized,
            (None, None) => access,
        };
        let rules = if refused.is_some() { Vec::new() } else { rules };
        let mut readings: Vec<String> = Vec::new();
        for reading in (0..values.reading_count()).rev() {
            self.read_as(&mut values, reading);
            readings.extend(values.path().map(|path| lossy(&path.bytes)));
        }
        readings.reverse();
        Explanation {
            access,
            decided_by: decided_by.or(denying).or(refused),
            client_ip: values.client(),
            path: readings.first().cloned(),
            readings,
            identities: self.present(&values),
            tier: values.tier().map(|tier| self.identities.tiers.name(tier).to_owned()),
            rules,
        }
    }

    fn is_denied_by(&self, rule: &ExplainedRule) -> bool {
        let denies = matches!(&rule.outcome, RuleOutcome::Applies(application) if application.denies);
        denies && !self.rules[rule.rule as usize].shadow
    }

    /// The identity whose token cannot be used, in words, if a rule refuses such.
    fn refused_token(&self, values: &mut RequestValues<'_>) -> Option<String> {
        let mut keys = Keys::new();
        let refused = (0..values.reading_count()).find_map(|reading| {
            let mut matching = self.matching_in(reading, values).matching.into_iter();
            matching.find_map(|rule| match self.write_key(rule, values, &mut keys) {
                Err(NoKey::Refused(id)) => Some(id),
                Ok(()) | Err(NoKey::Absent(_)) => None,
            })
        });
        refused.map(|id| format!("{}: its token cannot be used", self.identities.known(id).name))
    }

    /// The entry of a list that decides by this reading of the path.
    fn decided_by(&self, access: Access, reading: usize, values: &mut RequestValues<'_>) -> Option<String> {
        let list = match access {
            Access::Denied => &self.deny,
            Access::Allowed => &self.allow,
            Access::Rules | Access::Unauthorized => return None,
        };
        self.read_as(values, reading);
        list.entry_text(values, self.matcher.any_route(&values.routes))
    }

    fn explain_rules(&self, values: &mut RequestValues<'_>) -> Vec<ExplainedRule> {
        let readings: Vec<Reading> =
            (0..values.reading_count()).map(|reading| self.matching_in(reading, values)).collect();
        let explained = |(at, rule): (u32, &CompiledRule)| ExplainedRule {
            rule: at,
            name: rule.name.to_string(),
            outcome: self.outcome(at, values, &readings),
        };
        (0..).zip(&self.rules).map(explained).collect()
    }

    fn matching_in(&self, reading: usize, values: &mut RequestValues<'_>) -> Reading {
        self.read_as(values, reading);
        let mut reading = Reading { matching: Vec::new(), replaced: Vec::new() };
        self.matcher.each(&self.rules, values, |rule| reading.matching.push(rule));
        for rule in &reading.matching {
            // A rule replaces others where it has its key.
            let others = self.replaced_by(*rule, values);
            if !others.is_empty() && self.write_key(*rule, values, &mut Keys::new()).is_ok() {
                reading.replaced.extend(others.iter().map(|other| (*other, *rule)));
            }
        }
        reading
    }

    /// What limits applies in any reading, what replaces it must be there in all of them.
    fn outcome(&self, rule: u32, values: &mut RequestValues<'_>, readings: &[Reading]) -> RuleOutcome {
        let mut applied: Option<Application> = None;
        let mut why_not = None;
        for number in 0..readings.len() {
            if readings[number].matching.binary_search(&rule).is_err() {
                continue;
            }
            self.read_as(values, number);
            match self.application(rule, values) {
                Ok(mut application) => {
                    let path = values.path().filter(|_| readings.len() > 1);
                    application.read_as = path.map(|path| lossy(&path.bytes));
                    self.join_application(rule, &mut applied, application);
                }
                Err(reason) => why_not = why_not.or(Some(reason)),
            }
        }
        let replaced_in = |reading: &Reading| reading.replaced.iter().find(|(replaced, _)| *replaced == rule).copied();
        let is_replaced = readings.iter().all(|reading| replaced_in(reading).is_some());
        let by =
            readings.iter().find_map(replaced_in).filter(|_| is_replaced && (applied.is_some() || why_not.is_some()));
        match (by, applied) {
            (Some((_, by)), _) => RuleOutcome::NotApplied { reason: format!("replaced by `{}`", self.name(by)) },
            (None, Some(application)) => RuleOutcome::Applies(application),
            (None, None) => {
                self.read_as(values, 0);
                let reason = why_not.or_else(|| self.failing(rule, values));
                RuleOutcome::NotApplied { reason: reason.unwrap_or_else(|| "its conditions do not hold".to_owned()) }
            }
        }
    }

    /// The first reading counts, but one that limits before one that does not.
    fn join_application(&self, rule: u32, applied: &mut Option<Application>, other: Application) {
        match applied {
            Some(first) if !first.is_unlimited() => {
                let is_new = first.key != other.key && !first.more_keys.contains(&other.key);
                if is_new && !other.is_unlimited() && self.rules[rule as usize].action.counts_readings {
                    first.more_keys.push(other.key);
                }
            }
            Some(_) if other.is_unlimited() => {}
            _ => *applied = Some(other),
        }
    }

    fn name(&self, rule: u32) -> &str {
        &self.rules[rule as usize].name
    }

    /// How a rule applies whose conditions hold, or why it does not.
    fn application(&self, rule: u32, values: &RequestValues<'_>) -> Result<Application, String> {
        let mut keys = Keys::new();
        let action = &self.rules[rule as usize].action;
        if let Err(NoKey::Absent(id) | NoKey::Refused(id)) = self.write_key(rule, values, &mut keys) {
            return Err(format!("identity `{}` is absent", self.identities.known(id).name));
        }
        let chosen = self.grant(rule, values, &keys);
        Ok(Application {
            key: lossy(&keys),
            more_keys: Vec::new(),
            read_as: None,
            quotas: chosen.quotas.to_vec(),
            denies: self.rules[rule as usize].deny,
            cost: action.cost.of_values(values),
            route: self.matcher.route(rule, &values.routes).map(lossy),
            grant: action.grants.source(&chosen, &self.identities.tiers),
        })
    }

    /// The first condition that does not hold, in words.
    fn failing(&self, rule: u32, values: &RequestValues<'_>) -> Option<String> {
        let conditions = &self.rules[rule as usize].conditions;
        let when = &self.rules[rule as usize].when;
        if let Some(index) = self.matcher.failing(rule, values) {
            let descriptor = values.request.descriptor;
            return Some(match index {
                Index::Domains(_) => {
                    let domain = descriptor.map_or("", |descriptor| descriptor.domain);
                    not_among("domain", domain.as_bytes(), &when.domains)
                }
                Index::Entries(entries) => entries.failed(rule, descriptor),
                Index::Methods(_) => not_among("method", &values.method, &when.methods),
                Index::Hosts(_) => not_among("host", values.host.as_deref().unwrap_or_default(), &when.hosts),
                _ => {
                    let path = values.path().map(|path| &*path.bytes).unwrap_or_default();
                    not_among("path", path, &when.paths)
                }
            });
        }
        let route = self.matcher.route(rule, &values.routes);
        let headers = when.headers.iter().map(|(name, condition)| (format!("header `{name}`"), condition));
        let identities = when.identities.iter().map(|(name, condition)| (format!("identity `{name}`"), condition));
        for ((id, test), (what, condition)) in conditions.tests.iter().zip(headers.chain(identities)) {
            if !values.passes(*id, test, route) {
                let value = values.find(*id, route).map(|found| self.shown(found));
                return Some(failed(&what, condition, value.as_deref()));
            }
        }
        if !conditions.is_from(values.client()) {
            let client = values.client().map_or_else(
                || "the client's address is not known".to_owned(),
                |client| format!("client_ip is {client}"),
            );
            let relation = if conditions.outside { "which is in" } else { "not in" };
            let networks = when.network.as_ref().map(networks).unwrap_or_default();
            return Some(format!("{client}, {relation} {networks}"));
        }
        None
    }

    /// A value as it may be shown.
    fn shown(&self, found: Found<'_>) -> String {
        match found.unusable {
            Some(reason) => reason.in_words().to_owned(),
            None => self.identities.shown(found.id, found.text),
        }
    }

    /// The identities that are there. The pattern that matched is the most specific one of any rule.
    fn present(&self, values: &RequestValues<'_>) -> Vec<(String, String)> {
        let route = self.matcher.any_route(&values.routes);
        let present = |id| Some((self.identities.known(id).name.clone(), self.shown(values.find(id, route)?)));
        self.identities.named().filter_map(present).collect()
    }
}

/// `method is GET, not POST`; `path /x is not among /a, /b`.
fn not_among(what: &str, value: &[u8], wanted: &[String]) -> String {
    if value.is_empty() {
        return format!("{what} is not known");
    }
    match wanted {
        [only] => format!("{what} is {}, not {only}", lossy(value)),
        several => format!("{what} {} is not among {}", lossy(value), several.join(", ")),
    }
}

/// Why a value does not meet a condition.
fn failed(what: &str, condition: &Condition, value: Option<&str>) -> String {
    match (value, condition) {
        (None, _) => format!("{what} is absent"),
        (Some(_), Condition::Absent) => format!("{what} is present"),
        (Some(value), Condition::OneOf(patterns)) => match patterns.as_slice() {
            [only] => format!("{what} is `{value}`, not `{}`", only.0),
            several => format!("{what} is `{value}`, not among {}", quoted(several)),
        },
        (Some(value), Condition::OneOfBut { these, but_not }) => {
            let these = if these.is_empty() { "all".to_owned() } else { quoted(these) };
            format!("{what} is `{value}`, not among {these} without {}", quoted(but_not))
        }
        (Some(value), Condition::Present) => format!("{what} is `{value}`"),
    }
}

fn quoted(patterns: &[TextPattern]) -> String {
    patterns.iter().map(|pattern| format!("`{}`", pattern.0)).collect::<Vec<_>>().join(", ")
}
