use std::time::Duration;

use tollgate_core::{AlgorithmKind, MAX_AMOUNT, Queue};

use super::Reader;
use super::grant::Counting;
use super::members::Members;
use super::settings::ON_FAILURE;
use crate::check::members;
use crate::model::{Allowance, DEFAULT_LEASE, Grant, Override, Rule, TextPattern};
use crate::yaml::shape;
use crate::yaml::tree::{Node, Value};

impl Reader<'_> {
    pub(super) fn rules(&mut self, top: &Members<'_>) -> Vec<Rule> {
        let Some(node) = top.get("rules") else { return Vec::new() };
        let Value::List(items) = &node.value else {
            self.wrong_type(node, "a list of rules, each beginning with `- name: ..`");
            return Vec::new();
        };
        items.iter().enumerate().map(|(at, item)| self.rule(item, at)).collect()
    }

    fn rule(&mut self, node: &Node, at: usize) -> Rule {
        // The place of a rule in the model is its place in the file.
        let Some(members) = self.members(node, &shape::RULE) else { return Rule::new(&unreadable_name(at)) };
        let counting = self.counting(&members);
        let allowance = self.allowance(&members, counting);
        let name = members.get("name").and_then(|node| self.text(node, "the name of a rule"));
        Rule {
            name: name.unwrap_or_else(|| unreadable_name(at)),
            when: self.when(members.get("when")),
            key: members.get("key").map_or_else(Vec::new, |node| self.texts(node, "the name of an identity")),
            cost: members.get("cost").and_then(|node| self.cost(node)).unwrap_or_default(),
            on_limit: self.on_limit(&members, allowance.as_ref()),
            shadow: members.get("shadow").and_then(|node| self.bool(node)).unwrap_or(false),
            publish: members.get("publish").and_then(|node| self.bool(node)).unwrap_or(true),
            overrides: members.get("overrides").map_or_else(Vec::new, |node| self.overrides(node, counting)),
            replaces: members.get("replaces").map_or_else(Vec::new, |node| self.texts(node, "the name of a rule")),
            on_failure: members.get("on_failure").and_then(|node| self.word(node, &ON_FAILURE)),
            allowance: allowance.unwrap_or(Allowance::Same(Grant::Unlimited)),
        }
    }

    fn counting(&mut self, members: &Members<'_>) -> Counting {
        let algorithm = members.get("algorithm").and_then(|node| self.word(node, &members::ALGORITHMS));
        let queue = members.get("queue").and_then(|node| self.queue(node));
        let has = |name: &str| members.get(name).is_some();
        let max_debt = members.get("max_debt").filter(|_| !has("deny"));
        let max_debt = max_debt.and_then(|node| self.number(node, 0..=MAX_AMOUNT));
        // Where there are both, it was told, and the limit is read as the limit that it is.
        let is_concurrency = has("concurrency") && !has("limit") && !has("tiers");
        let grant = match (has("deny"), is_concurrency) {
            (true, _) => "deny",
            (false, true) => "concurrency",
            (false, false) => "limit",
        };
        // An algorithm that could not be read may have been the right one.
        let known = algorithm.or((!has("algorithm")).then_some(AlgorithmKind::TokenBucket));
        for (name, (message, hint)) in members::misplaced(grant, known, has) {
            self.misplaced(members.name_span(name), &message, &hint);
        }
        let algorithm = algorithm.unwrap_or(AlgorithmKind::TokenBucket);
        match (grant, members.get("concurrency")) {
            ("deny", _) => Counting::Rates { algorithm: AlgorithmKind::TokenBucket, queue: None, max_debt: None },
            ("concurrency", Some(node)) => Counting::Permits { lease: self.lease(node) },
            _ => Counting::Rates { algorithm, queue, max_debt },
        }
    }

    fn queue(&mut self, node: &Node) -> Option<Queue> {
        let members = self.members(node, &shape::QUEUE)?;
        let max_wait = members.get("max_wait").and_then(|node| self.duration(node)).map(Duration::from_nanos);
        let size = members.get("size").and_then(|node| self.number(node, 1..=MAX_AMOUNT - 1));
        Some(Queue { size: size?, max_wait })
    }

    /// The lease of `concurrency: { permits: 3, lease: 1min }`.
    fn lease(&mut self, node: &Node) -> Duration {
        let lease = node.member("permits").and(node.member("lease"));
        lease.and_then(|lease| self.duration(&lease.value)).map_or(DEFAULT_LEASE, Duration::from_nanos)
    }

    fn allowance(&mut self, members: &Members<'_>, counting: Counting) -> Option<Allowance> {
        if let Some(node) = members.get("deny") {
            self.only_true(node);
            return Some(Allowance::Deny);
        }
        if let Some(node) = members.get("limit") {
            return self.grant(node, counting).map(Allowance::Same);
        }
        if let Some(node) = members.get("tiers") {
            return self.tiers(node, counting);
        }
        if let Some(node) = members.get("concurrency") {
            return self.concurrency(node, counting);
        }
        self.only_true(members.get("unlimited")?);
        Some(Allowance::Same(Grant::Unlimited))
    }

    fn tiers(&mut self, node: &Node, counting: Counting) -> Option<Allowance> {
        if !node.is_map() {
            self.wrong_type(node, "a map of tiers and rates, such as { free: 60/min, pro: 600/min }");
            return None;
        }
        self.refuse_empty(node);
        // A tier whose rate cannot be read still exists.
        let mut tier = |member: &Node| self.grant(member, counting).unwrap_or(Grant::Unlimited);
        let tiers: Vec<_> =
            node.members().iter().map(|member| (member.name.to_string(), tier(&member.value))).collect();
        (!tiers.is_empty()).then_some(Allowance::Tiers(tiers))
    }

    /// `3`, `{ permits: 3, lease: 1min }`, or permits by tier.
    fn concurrency(&mut self, node: &Node, counting: Counting) -> Option<Allowance> {
        if !node.is_map() {
            return self.grant(node, counting).map(Allowance::Same);
        }
        if node.member("permits").is_none() && node.member("lease").is_none() {
            return self.tiers(node, counting);
        }
        let members = self.members(node, &shape::PERMITS)?;
        self.grant(members.get("permits")?, counting).map(Allowance::Same)
    }

    fn overrides(&mut self, node: &Node, counting: Counting) -> Vec<Override> {
        self.refuse_empty(node);
        match &node.value {
            Value::Map(map) => {
                let one = |name: &str| vec![TextPattern(name.to_owned())];
                let grants = map.members.iter().map(|member| (one(&member.name), self.grant(&member.value, counting)));
                grants.map(|(key, grant)| Override { key, grant: grant.unwrap_or(Grant::Unlimited) }).collect()
            }
            Value::List(items) => items.iter().filter_map(|item| self.one_override(item, counting)).collect(),
            Value::Scalar(_) => {
                self.wrong_type(node, "a map of keys and rates, or a list of { key, limit }");
                Vec::new()
            }
        }
    }

    fn one_override(&mut self, node: &Node, counting: Counting) -> Option<Override> {
        let members = self.members(node, &shape::OVERRIDE)?;
        let key = members.get("key").map(|node| self.patterns(node));
        let grant = members.get("limit").and_then(|node| self.grant(node, counting));
        Some(Override { key: key?, grant: grant.unwrap_or(Grant::Unlimited) })
    }
}

fn unreadable_name(at: usize) -> String {
    format!("unreadable-rule-{at}")
}
