//! A plan explained: the road of `meet`, told.

use super::identity::{Look, Seen};
use super::key::Keys;
use super::{Access, Application, ExplainedRule, Explanation, IdentityId, NoKey, Plan, RuleOutcome};
use crate::request::Request;

impl Plan {
    /// What a request meets, and why, for people.
    #[must_use]
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        let seen = Seen::new(request, &self.identities);
        let mut look = Look::new(&self.identities, request, &seen);
        let matched = self.matched(&seen);
        let route = self.matcher.any_route(&matched);
        let access = self.access(&mut look, &matched);
        let list = match access {
            Access::Denied => Some(&self.deny),
            Access::Allowed => Some(&self.allow),
            Access::Rules | Access::Unauthorized => None,
        };
        let decided_by = list.and_then(|list| list.entry_text(&mut look, route));
        let refused = if access == Access::Rules { self.refused_token(&mut look, &matched) } else { None };
        let access = if refused.is_some() { Access::Unauthorized } else { access };
        let rules = if access == Access::Rules { self.explain_rules(&mut look, &matched) } else { Vec::new() };
        Explanation {
            access,
            decided_by: refused.or(decided_by),
            client_ip: look.client(),
            path: seen.path.as_ref().map(|path| lossy(&path.bytes)),
            identities: self.present(&mut look, route),
            tier: look.tier().map(|tier| self.identities.tiers.name(tier).to_owned()),
            rules,
        }
    }

    /// The identity whose token cannot be used, in words, if a rule refuses such.
    fn refused_token<'a>(&'a self, look: &mut Look<'a>, matched: &[u32]) -> Option<String> {
        let meeting = self.matcher_meets(look, matched);
        let met = (0..).zip(meeting).filter_map(|(rule, meets)| meets.then_some(rule));
        let mut keys = Keys::new();
        let refused = met.filter_map(|rule| match self.write_key(rule, look, matched, &mut keys) {
            Err(NoKey::Refused(id)) => Some(id),
            Ok(()) | Err(NoKey::Absent(_)) => None,
        });
        refused.map(|id| format!("{}: its token cannot be used", self.identities.known(id).name)).next()
    }

    /// For each rule whether its conditions hold.
    fn matcher_meets<'a>(&'a self, look: &mut Look<'a>, matched: &[u32]) -> Vec<bool> {
        let mut meeting = vec![false; self.rules.len()];
        self.matcher.each(&self.conditions, look, matched, |_, rule| meeting[rule as usize] = true);
        meeting
    }

    fn explain_rules<'a>(&'a self, look: &mut Look<'a>, matched: &[u32]) -> Vec<ExplainedRule> {
        let meeting = self.matcher_meets(look, matched);
        let replaced = self.replacing(&meeting, look, matched);
        let explained = |(rule, meets): (u32, bool)| {
            let outcome = match replaced.iter().find(|(replaced, _)| *replaced == rule && meets) {
                Some((_, by)) => RuleOutcome::NotApplied { reason: format!("replaced by `{}`", self.name(*by)) },
                None if meets => self.application(rule, look, matched),
                None => self.not_applied(rule, look, matched),
            };
            ExplainedRule { rule, name: self.rules[rule as usize].name.to_string(), outcome }
        };
        (0..).zip(meeting).map(explained).collect()
    }

    /// The rules that are replaced, each with the one that does it: one that has its key.
    fn replacing<'a>(&'a self, meeting: &[bool], look: &mut Look<'a>, matched: &[u32]) -> Vec<(u32, u32)> {
        let mut replaced = Vec::new();
        for (rule, _) in (0..).zip(meeting).filter(|(_, meets)| **meets) {
            let has_key = self.write_key(rule, look, matched, &mut Keys::new()).is_ok();
            if has_key && self.surely_replaces(rule, look, matched) {
                replaced.extend(self.bodies[rule as usize].replaces.iter().map(|other| (*other, rule)));
            }
        }
        replaced
    }

    fn name(&self, rule: u32) -> &str {
        &self.rules[rule as usize].name
    }

    fn application<'a>(&'a self, rule: u32, look: &mut Look<'a>, matched: &[u32]) -> RuleOutcome {
        let mut keys = Keys::new();
        let body = &self.bodies[rule as usize];
        match self.write_key(rule, look, matched, &mut keys) {
            Ok(()) => {
                let chosen = self.grant(rule, look, matched, &keys);
                RuleOutcome::Applies(Application {
                    key: lossy(&keys),
                    quotas: chosen.quotas.to_vec(),
                    cost: body.cost.of(look),
                    route: self.matcher.route(rule, matched).map(lossy),
                    grant: body.grants.source(&chosen, &self.identities.tiers),
                })
            }
            Err(NoKey::Absent(id) | NoKey::Refused(id)) => RuleOutcome::NotApplied { reason: self.absence(id) },
        }
    }

    fn absence(&self, id: IdentityId) -> String {
        format!("identity `{}` is absent", self.identities.known(id).name)
    }

    fn not_applied<'a>(&'a self, rule: u32, look: &mut Look<'a>, matched: &[u32]) -> RuleOutcome {
        let reason = self.failing(rule, look, matched).unwrap_or_else(|| "its conditions do not hold".to_owned());
        RuleOutcome::NotApplied { reason }
    }

    /// The first condition that does not hold, in words.
    pub(super) fn failing<'a>(&'a self, rule: u32, look: &mut Look<'a>, matched: &[u32]) -> Option<String> {
        let conditions = &self.conditions[rule as usize];
        let words = &self.words[rule as usize];
        let [method, host, path, domain, entries] = self.matcher.holds_each(rule, look, matched);
        if !domain {
            let domain = look.request.descriptor.map_or("", |descriptor| descriptor.domain);
            return Some(not_among("domain", domain.as_bytes(), &words.domains));
        }
        if !entries {
            return Some(self.matcher.entries.index.failed(rule, look.request.descriptor));
        }
        if !method {
            return Some(not_among("method", &look.seen.method, &words.methods));
        }
        if !host {
            return Some(not_among("host", look.seen.host.as_deref().unwrap_or_default(), &words.hosts));
        }
        if !path {
            let path = look.seen.path.as_ref().map(|path| path.bytes.to_vec()).unwrap_or_default();
            return Some(not_among("path", &path, &words.paths));
        }
        let route = self.matcher.route(rule, matched);
        for (at, (id, _)) in conditions.tests.iter().enumerate() {
            if !conditions.holds(at, look, route) {
                let found = look.find(*id, route);
                let value = found.map(|found| match found.unusable {
                    Some(reason) => reason.in_words().to_owned(),
                    None => lossy(look.text(found)),
                });
                return Some(words.tests[at].failed(value.as_deref()));
            }
        }
        if !conditions.is_from(look.client()) {
            let client = look.client().map_or_else(
                || "the client's address is not known".to_owned(),
                |client| format!("client_ip is {client}"),
            );
            return Some(format!("{client}, not in {}", words.network));
        }
        None
    }

    /// The identities that are there. The pattern that matched is the most specific one of any rule.
    fn present<'a>(&'a self, look: &mut Look<'a>, route: Option<&'a [u8]>) -> Vec<(String, String)> {
        let mut present = Vec::new();
        for id in self.identities.named() {
            if let Some(found) = look.find(id, route) {
                let value =
                    found.unusable.map_or_else(|| lossy(look.text(found)), |reason| reason.in_words().to_owned());
                present.push((self.identities.known(id).name.clone(), value));
            }
        }
        present
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

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
