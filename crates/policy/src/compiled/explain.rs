//! Explanations of requests: which rules match, and why the others do not.

use std::net::IpAddr;

use crate::compiled::identity::{FoundValue, RequestValues};
use crate::compiled::key::key_bytes::KeyBuffer;
use crate::compiled::matching::NoKey;
use crate::compiled::matching::matcher::Index;
use crate::compiled::{Access, CompiledPolicy, CompiledRule, lossy};
use crate::model::{Condition, TextPattern};
use crate::promise::words::networks;
use crate::request::Request;

/// How a policy treats a request, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The outcome before any limit. A rule that denies has the same effect here as an access list.
    pub access: Access,
    /// The deciding entry of an access list, such as `client_ip 192.0.2.0/24`, or the rule that denies, as `rule NAME`.
    pub decided_by: Option<String>,
    /// The client's address.
    pub client_ip: Option<IpAddr>,
    /// The path in its first reading, the most resolved one; `None` if it is unknown.
    pub path: Option<String>,
    /// All readings of the path, beginning with `path`: limits apply in any of them, exemptions only in all.
    pub readings: Vec<String>,
    /// The names and values of the identities that are present.
    pub identities: Vec<(String, String)>,
    /// The client's tier.
    pub tier: Option<String>,
    /// All rules, in the order of the policy. Empty if an access list decides.
    pub rules: Vec<ExplainedRule>,
}

/// One rule of an [`Explanation`].
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedRule {
    /// The rule's position among [`CompiledPolicy::rules`](crate::CompiledPolicy::rules).
    pub rule: u32,
    /// The rule's name.
    pub name: String,
    /// Whether the rule applies, and how.
    pub outcome: RuleOutcome,
}

/// Whether a rule applies, and how.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleOutcome {
    /// The rule applies.
    Applies(Application),
    /// The rule does not apply.
    NotApplied {
        /// The reason, as text.
        reason: String,
    },
}

/// How a rule applies to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// The key; empty if the rule counts all clients together.
    pub key: String,
    /// Further keys that are charged, because another reading of the path yields another part of the key.
    pub more_keys: Vec<String>,
    /// The reading of the path in which the rule applies, if there are several.
    pub read_as: Option<String>,
    /// The positions of the quotas among [`CompiledPolicy::quotas`](crate::CompiledPolicy::quotas); empty if unlimited.
    pub quotas: Vec<u32>,
    /// Whether the rule denies the request. It then charges nothing.
    pub denies: bool,
    /// The cost of the request.
    pub cost: u64,
    /// The pattern that the path matches.
    pub route: Option<String>,
    /// The origin of the grant.
    pub grant: GrantSource,
}

/// The origin of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantSource {
    /// The rule's own limit, which is the same for all clients.
    Rule,
    /// The limit of this tier.
    Tier(String),
    /// The override for this pattern.
    Override(String),
}

impl Application {
    /// Whether the request passes the rule without a charge.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.quotas.is_empty() && !self.denies
    }
}

/// The rules that match in one reading of the path.
struct MatchedReading {
    /// The rules whose conditions hold, in order.
    matching: Vec<u32>,
    /// The rules that are replaced, each with the rule that replaces it.
    replaced: Vec<(u32, u32)>,
}

impl CompiledPolicy {
    /// Explains which rules a request matches, and why, as text for operators.
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
            self.select_reading(&mut values, reading);
            readings.extend(values.path().map(|path| lossy(&path.bytes)));
        }
        readings.reverse();
        Explanation {
            access,
            decided_by: decided_by.or(denying).or(refused),
            client_ip: values.client(),
            path: readings.first().cloned(),
            readings,
            identities: self.present_identities(&values),
            tier: values.tier().map(|tier| self.identities.tiers.name(tier).to_owned()),
            rules,
        }
    }

    fn is_denied_by(&self, rule: &ExplainedRule) -> bool {
        let denies = matches!(&rule.outcome, RuleOutcome::Applies(application) if application.denies);
        denies && !self.rules[rule.rule as usize].shadow
    }

    /// Returns the identity whose token is unusable, as text, if a rule refuses such tokens.
    fn refused_token(&self, values: &mut RequestValues<'_>) -> Option<String> {
        let mut keys = KeyBuffer::new();
        let refused = (0..values.reading_count()).find_map(|reading| {
            let mut matching = self.matching_in(reading, values).matching.into_iter();
            matching.find_map(|rule| match self.write_key(rule, values, &mut keys) {
                Err(NoKey::Refused(id)) => Some(id),
                Ok(()) | Err(NoKey::Absent(_)) => None,
            })
        });
        refused.map(|id| format!("{}: its token is unusable", self.identities.get(id).name))
    }

    /// Returns the entry of the access list that decides in this reading of the path.
    fn decided_by(&self, access: Access, reading: usize, values: &mut RequestValues<'_>) -> Option<String> {
        let list = match access {
            Access::Denied => &self.deny,
            Access::Allowed => &self.allow,
            Access::Rules | Access::Unauthorized => return None,
        };
        self.select_reading(values, reading);
        list.entry_text(values, self.matcher.any_route(&values.routes))
    }

    fn explain_rules(&self, values: &mut RequestValues<'_>) -> Vec<ExplainedRule> {
        let readings: Vec<MatchedReading> =
            (0..values.reading_count()).map(|reading| self.matching_in(reading, values)).collect();
        let explained = |(index, rule): (u32, &CompiledRule)| ExplainedRule {
            rule: index,
            name: rule.name.to_string(),
            outcome: self.outcome(index, values, &readings),
        };
        (0..).zip(&self.rules).map(explained).collect()
    }

    fn matching_in(&self, reading: usize, values: &mut RequestValues<'_>) -> MatchedReading {
        self.select_reading(values, reading);
        let mut reading = MatchedReading { matching: Vec::new(), replaced: Vec::new() };
        self.matcher.for_each_match(&self.rules, values, |rule| reading.matching.push(rule));
        for rule in &reading.matching {
            // A rule replaces others only if its key is present.
            let others = self.replaced_by(*rule, values);
            if !others.is_empty() && self.write_key(*rule, values, &mut KeyBuffer::new()).is_ok() {
                reading.replaced.extend(others.iter().map(|other| (*other, *rule)));
            }
        }
        reading
    }

    /// Returns the outcome of a rule over all readings: it applies if it does in any of them, and is replaced only if
    /// it is in all of them.
    fn outcome(&self, rule: u32, values: &mut RequestValues<'_>, readings: &[MatchedReading]) -> RuleOutcome {
        let mut applied: Option<Application> = None;
        let mut reason_absent = None;
        for number in 0..readings.len() {
            if readings[number].matching.binary_search(&rule).is_err() {
                continue;
            }
            self.select_reading(values, number);
            match self.application(rule, values) {
                Ok(mut application) => {
                    let path = values.path().filter(|_| readings.len() > 1);
                    application.read_as = path.map(|path| lossy(&path.bytes));
                    self.join_application(rule, &mut applied, application);
                }
                Err(reason) => reason_absent = reason_absent.or(Some(reason)),
            }
        }
        let replaced_in =
            |reading: &MatchedReading| reading.replaced.iter().find(|(replaced, _)| *replaced == rule).copied();
        let is_replaced = readings.iter().all(|reading| replaced_in(reading).is_some());
        let by = readings
            .iter()
            .find_map(replaced_in)
            .filter(|_| is_replaced && (applied.is_some() || reason_absent.is_some()));
        match (by, applied) {
            (Some((_, by)), _) => RuleOutcome::NotApplied { reason: format!("replaced by `{}`", self.name(by)) },
            (None, Some(application)) => RuleOutcome::Applies(application),
            (None, None) => {
                self.select_reading(values, 0);
                let reason = reason_absent.or_else(|| self.failing(rule, values));
                RuleOutcome::NotApplied { reason: reason.unwrap_or_else(|| "its conditions do not hold".to_owned()) }
            }
        }
    }

    /// Joins the application of a rule in a further reading. The first reading that limits decides, else the first.
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

    /// Returns how a rule applies whose conditions hold, or why it does not.
    fn application(&self, rule: u32, values: &RequestValues<'_>) -> Result<Application, String> {
        let mut keys = KeyBuffer::new();
        let action = &self.rules[rule as usize].action;
        if let Err(NoKey::Absent(id) | NoKey::Refused(id)) = self.write_key(rule, values, &mut keys) {
            return Err(format!("identity `{}` is absent", self.identities.get(id).name));
        }
        let chosen = self.grant(rule, values, &keys);
        Ok(Application {
            key: lossy(&keys),
            more_keys: Vec::new(),
            read_as: None,
            quotas: chosen.quotas.to_vec(),
            denies: self.rules[rule as usize].deny,
            cost: action.cost.for_values(values),
            route: self.matcher.route(rule, &values.routes).map(lossy),
            grant: action.grants.source(&chosen, &self.identities.tiers),
        })
    }

    /// Returns the first condition that does not hold, as text.
    fn failing(&self, rule: u32, values: &RequestValues<'_>) -> Option<String> {
        let conditions = &self.rules[rule as usize].conditions;
        let when = &self.rules[rule as usize].when;
        if let Some(index) = self.matcher.failing_index(rule, values) {
            let descriptor = values.request.descriptor;
            return Some(match index {
                Index::Domains(_) => {
                    let domain = descriptor.map_or("", |descriptor| descriptor.domain);
                    not_among("domain", domain.as_bytes(), &when.domains)
                }
                Index::Entries(entries) => entries.mismatch(rule, descriptor),
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
                let value = values.find(*id, route).map(|found| self.display_value(found));
                return Some(mismatch(&what, condition, value.as_deref()));
            }
        }
        if !conditions.is_from(values.client()) {
            let client = values.client().map_or_else(
                || "the client's address is unknown".to_owned(),
                |client| format!("client_ip is {client}"),
            );
            let relation = if conditions.outside { "which is in" } else { "not in" };
            let networks = when.network.as_ref().map(networks).unwrap_or_default();
            return Some(format!("{client}, {relation} {networks}"));
        }
        None
    }

    /// Returns a value as it may be displayed: a credential as its hash.
    fn display_value(&self, found: FoundValue<'_>) -> String {
        match found.unusable {
            Some(reason) => reason.description().to_owned(),
            None => self.identities.display_value(found.id, found.text),
        }
    }

    /// Returns the identities that are present. For `route`, this is the most specific matching pattern of any rule.
    fn present_identities(&self, values: &RequestValues<'_>) -> Vec<(String, String)> {
        let route = self.matcher.any_route(&values.routes);
        let present = |id| Some((self.identities.get(id).name.clone(), self.display_value(values.find(id, route)?)));
        self.identities.named().filter_map(present).collect()
    }
}

/// Formats a mismatch: `method is GET, not POST` or `path /x is not among /a, /b`.
fn not_among(what: &str, value: &[u8], wanted: &[String]) -> String {
    if value.is_empty() {
        return format!("{what} is unknown");
    }
    match wanted {
        [only] => format!("{what} is {}, not {only}", lossy(value)),
        several => format!("{what} {} is not among {}", lossy(value), several.join(", ")),
    }
}

/// Formats why a value does not meet a condition.
fn mismatch(what: &str, condition: &Condition, value: Option<&str>) -> String {
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
