//! Which rules match a request, found without asking each of them.
//!
//! Every kind of condition is a dimension: it knows the rules that do not care,
//! and finds those whose condition holds by looking a value up. A rule matches a
//! request if it is in the set of each dimension. Sets are intersected word by
//! word, beginning with the smallest, so that what a request costs depends on
//! the rules that nearly match it and hardly on how many there are.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::compiled::CompiledRule;
use crate::compiled::address::carried;
use crate::compiled::address::networks::{NetworkMap, meant};
use crate::compiled::identity::{Identities, IdentityId, Look};
use crate::compiled::matching::bits::{DenseSet, RuleSet, rules_in};
use crate::compiled::matching::conditions::Conditions;
use crate::compiled::matching::entries::{Domains, EntrySets};
use crate::compiled::matching::hosts::Hosts;
use crate::compiled::matching::methods::Methods;
use crate::compiled::matching::texts::TextMap;
use crate::compiled::path::routes::Routes;
use crate::model::{Condition, Rule};

/// The sets of the rules whose condition in a dimension holds.
type Holding<'a> = SmallVec<[&'a RuleSet; 4]>;

/// An index is for what at least so many rules ask for, ..
const INDEXED_RULES_MIN: usize = 8;
/// .. and no fewer than one in so many: each index costs every request that gets near it a look.
const INDEXED_SHARE: usize = 16;
/// With so few words left, another dimension is not worth a look ahead.
const FEW_WORDS: usize = 2;

/// All rules, indexed.
#[derive(Debug)]
pub(in crate::compiled) struct Matcher {
    all: DenseSet,
    methods: Dimension<Methods>,
    hosts: Dimension<Hosts>,
    pub(in crate::compiled) routes: Dimension<Routes>,
    domains: Dimension<Domains>,
    pub(in crate::compiled) entries: Dimension<EntrySets>,
    values: Vec<Dimension<Values>>,
    /// For each rule the tests that are in no index.
    others: Vec<Vec<usize>>,
    /// Whether networks are indexed, too, or left to each rule.
    networks_indexed: bool,
}

/// One kind of condition.
#[derive(Debug)]
pub(in crate::compiled) struct Dimension<I> {
    /// The rules that do not care, and the words in which there are any.
    any: DenseSet,
    any_words: Vec<u32>,
    caring: usize,
    pub(in crate::compiled) index: I,
}

/// What is looked up only where a rule that cares is still in question.
#[derive(Debug)]
enum Values {
    Network(NetworkMap<RuleSet>),
    Text { id: IdentityId, present: RuleSet, absent: RuleSet, map: TextMap<RuleSet> },
}

/// A dimension, looked up.
struct Side<'a> {
    any: &'a DenseSet,
    any_words: &'a [u32],
    holding: Holding<'a>,
}

impl Matcher {
    pub(in crate::compiled) fn compile(rules: &[Rule], compiled: &[CompiledRule], identities: &Identities) -> Matcher {
        let mut methods = Dimension::new(rules.len(), Methods::default());
        let mut hosts = Dimension::new(rules.len(), Hosts::default());
        let mut routes = Dimension::new(rules.len(), Routes::compile(rules, identities.paths));
        let mut domains = Dimension::new(rules.len(), Domains::default());
        let mut entries = Dimension::new(rules.len(), EntrySets::compile(rules, identities));
        for (at, rule) in (0..).zip(rules) {
            methods.care_if(at, !rule.when.methods.is_empty());
            for method in &rule.when.methods {
                methods.index.insert(method, at);
            }
            hosts.care_if(at, !rule.when.hosts.is_empty());
            rule.when.hosts.iter().for_each(|host| hosts.index.insert(host, at));
            routes.care_if(at, !rule.when.paths.is_empty());
            domains.care_if(at, !rule.when.domains.is_empty());
            rule.when.domains.iter().for_each(|domain| domains.index.insert(domain, at));
            entries.care_if(at, rule.when.exact_entries);
        }
        let (values, others) = index_values(rules, compiled, identities);
        let networks = index_networks(rules);
        let networks_indexed = networks.is_some();
        Matcher {
            all: DenseSet::all(rules.len()),
            methods: methods.finish(),
            hosts: hosts.finish(),
            routes: routes.finish(),
            domains: domains.finish(),
            entries: entries.finish(),
            values: networks.into_iter().chain(values).map(Dimension::finish).collect(),
            others,
            networks_indexed,
        }
    }

    /// Calls `visit` for each rule whose conditions hold, in order. `routes` are the patterns that the path matches.
    pub(in crate::compiled) fn each<'a>(
        &'a self,
        rules: &'a [CompiledRule],
        look: &mut Look<'a>,
        routes: &[u32],
        mut visit: impl FnMut(&mut Look<'a>, u32),
    ) {
        if self.all.word_count() <= 1 && self.values.is_empty() {
            return self.each_of_few(rules, look, routes, visit);
        }
        let sides = self.look_up(look, routes);
        let mut values: SmallVec<[Option<Side<'a>>; 2]> = self.values.iter().map(|_| None).collect();
        let mut in_word = |word: u32, look: &mut Look<'a>, values: &mut [Option<Side<'a>>]| {
            let mut bits = sides.iter().fold(self.all.word(word), |bits, side| bits & side.word(word));
            for (side, dimension) in values.iter_mut().zip(&self.values) {
                if bits & !dimension.any.word(word) != 0 {
                    bits &= side.get_or_insert_with(|| dimension.value_side(look)).word(word);
                }
            }
            for rule in rules_in(word, bits) {
                if self.others_hold(rule, &rules[rule as usize].conditions, look, routes) {
                    visit(look, rule);
                }
            }
        };
        match self.few_words(&sides, look, &mut values) {
            Some(words) => words.into_iter().for_each(|word| in_word(word, look, &mut values)),
            None => (0..self.all.word_count()).for_each(|word| in_word(word, look, &mut values)),
        }
    }

    /// The same for so few rules that a word holds them all and no value is
    /// indexed: there is nothing to plan, and most policies are such.
    fn each_of_few<'a>(
        &'a self,
        rules: &'a [CompiledRule],
        look: &mut Look<'a>,
        routes: &[u32],
        mut visit: impl FnMut(&mut Look<'a>, u32),
    ) {
        if self.all.word_count() == 0 {
            return;
        }
        let mut bits = self.all.word(0);
        if self.methods.caring > 0 {
            let found = self.methods.index.find(look);
            bits &= self.methods.any.word(0) | found.map_or(0, |set| set.word(0));
        }
        if self.hosts.caring > 0 {
            let holding = look.seen.host.as_deref().map(|host| self.hosts.index.find(host)).unwrap_or_default();
            bits &= holding.iter().fold(self.hosts.any.word(0), |bits, set| bits | set.word(0));
        }
        if self.routes.caring > 0 {
            let word = |number: &u32| self.routes.index.rules(*number).word(0);
            bits &= routes.iter().fold(self.routes.any.word(0), |bits, number| bits | word(number));
        }
        if self.domains.caring > 0 {
            let found = self.domains.index.find(look.request.descriptor);
            bits &= self.domains.any.word(0) | found.map_or(0, |set| set.word(0));
        }
        if self.entries.caring > 0 {
            let found = self.entries.index.find(look.request.descriptor);
            bits &= self.entries.any.word(0) | found.map_or(0, |set| set.word(0));
        }
        for rule in rules_in(0, bits) {
            if self.others_hold(rule, &rules[rule as usize].conditions, look, routes) {
                visit(look, rule);
            }
        }
    }

    /// Whether the conditions of a rule on method, host, path, domain and entries hold, each by itself.
    pub(in crate::compiled) fn holds_each(&self, rule: u32, look: &Look<'_>, routes: &[u32]) -> [bool; 5] {
        let method = self.methods.index.find(look).is_some_and(|set| set.contains(rule));
        let host = look
            .seen
            .host
            .as_deref()
            .is_some_and(|host| self.hosts.index.find(host).iter().any(|set| set.contains(rule)));
        let path = self.routes.index.of_rule(rule, routes).is_some();
        let descriptor = look.request.descriptor;
        let domain = self.domains.index.find(descriptor).is_some_and(|set| set.contains(rule));
        let entries = self.entries.index.find(descriptor).is_some_and(|set| set.contains(rule));
        [
            method || self.methods.is_indifferent(rule),
            host || self.hosts.is_indifferent(rule),
            path || self.routes.is_indifferent(rule),
            domain || self.domains.is_indifferent(rule),
            entries || self.entries.is_indifferent(rule),
        ]
    }

    /// All but values are at hand, and are looked up at once if any rule cares.
    fn look_up<'a>(&'a self, look: &Look<'a>, routes: &[u32]) -> SmallVec<[Side<'a>; 3]> {
        let mut sides = SmallVec::new();
        if self.methods.caring > 0 {
            sides.push(self.methods.side(self.methods.index.find(look).into_iter().collect()));
        }
        if self.hosts.caring > 0 {
            let holding = look.seen.host.as_deref().map(|host| self.hosts.index.find(host));
            sides.push(self.hosts.side(holding.unwrap_or_default()));
        }
        if self.routes.caring > 0 {
            sides.push(self.routes.side(routes.iter().map(|number| self.routes.index.rules(*number)).collect()));
        }
        let descriptor = look.request.descriptor;
        if self.domains.caring > 0 {
            sides.push(self.domains.side(self.domains.index.find(descriptor).into_iter().collect()));
        }
        if self.entries.caring > 0 {
            sides.push(self.entries.side(self.entries.index.find(descriptor).into_iter().collect()));
        }
        sides
    }

    /// The words in which the smallest dimension has any rules, if they are few.
    /// Values are looked up for it only where nothing else tells the rules apart.
    fn few_words<'a>(
        &'a self,
        sides: &[Side<'a>],
        look: &mut Look<'a>,
        values: &mut [Option<Side<'a>>],
    ) -> Option<SmallVec<[u32; 16]>> {
        let mut fewest = self.all.word_count() as usize;
        let mut smallest = None;
        for side in sides {
            if side.size() < fewest {
                (fewest, smallest) = (side.size(), Some(side));
            }
        }
        if fewest > FEW_WORDS {
            for (side, dimension) in values.iter_mut().zip(&self.values) {
                if dimension.any_words.len() < fewest {
                    *side = Some(dimension.value_side(look));
                }
            }
            for side in values.iter().flatten() {
                if side.size() < fewest {
                    (fewest, smallest) = (side.size(), Some(side));
                }
            }
        }
        smallest.map(Side::words)
    }

    #[inline]
    fn others_hold<'a>(&'a self, rule: u32, conditions: &Conditions, look: &mut Look<'a>, routes: &[u32]) -> bool {
        let others = &self.others[rule as usize];
        if !others.is_empty() {
            let route = self.route(rule, routes);
            if !others.iter().all(|at| conditions.holds(*at, look, route)) {
                return false;
            }
        }
        let is_known = conditions.network.is_none() || (self.networks_indexed && !conditions.outside);
        is_known || conditions.is_from(look.client())
    }

    /// Whether the paths of a rule are among these, or are not asked for.
    pub(in crate::compiled) fn is_for(&self, rule: u32, routes: &[u32]) -> bool {
        self.routes.is_indifferent(rule) || self.routes.index.of_rule(rule, routes).is_some()
    }

    /// The most specific pattern of any rule.
    #[inline]
    pub(in crate::compiled) fn any_route(&self, routes: &[u32]) -> Option<&[u8]> {
        routes.first().map(|number| self.routes.index.text(*number))
    }

    /// The pattern that matched: the rule's own, or anybody's if the rule has none.
    #[inline]
    pub(in crate::compiled) fn route<'a>(&'a self, rule: u32, routes: &[u32]) -> Option<&'a [u8]> {
        let number = if self.routes.is_indifferent(rule) {
            routes.first().copied()
        } else {
            self.routes.index.of_rule(rule, routes)
        };
        number.map(|number| self.routes.index.text(number))
    }
}

impl<I> Dimension<I> {
    fn new(rules: usize, index: I) -> Dimension<I> {
        Dimension { any: DenseSet::all(rules), any_words: Vec::new(), caring: 0, index }
    }

    fn care_if(&mut self, rule: u32, cares: bool) {
        if cares {
            self.any.remove(rule);
            self.caring += 1;
        }
    }

    fn finish(mut self) -> Dimension<I> {
        self.any_words = self.any.words().collect();
        self
    }

    fn is_indifferent(&self, rule: u32) -> bool {
        self.any.word(rule / 64) >> (rule % 64) & 1 == 1
    }

    fn side<'a>(&'a self, holding: Holding<'a>) -> Side<'a> {
        Side { any: &self.any, any_words: &self.any_words, holding }
    }
}

impl Dimension<Values> {
    fn value_side<'a>(&'a self, look: &mut Look<'a>) -> Side<'a> {
        self.side(match &self.index {
            Values::Network(map) => {
                let client = look.client();
                let carried = client.and_then(carried).map(IpAddr::V4);
                client.into_iter().chain(carried).flat_map(|address| map.find(address)).collect()
            }
            Values::Text { id, present, absent, map } => match look.find(*id, None) {
                Some(found) if found.is_usable() => {
                    let sent = look.as_sent(found);
                    let as_sent = sent.iter().flat_map(|sent| map.find(found.id, sent));
                    std::iter::once(present).chain(map.find(found.id, look.text(found))).chain(as_sent).collect()
                }
                Some(_) => [present, absent].into_iter().collect(),
                None => std::iter::once(absent).collect(),
            },
        })
    }
}

impl Side<'_> {
    fn word(&self, word: u32) -> u64 {
        self.holding.iter().fold(self.any.word(word), |bits, set| bits | set.word(word))
    }

    /// No fewer than the words in which it has any rules.
    fn size(&self) -> usize {
        self.any_words.len() + self.holding.iter().map(|set| set.words().len()).sum::<usize>()
    }

    fn words(&self) -> SmallVec<[u32; 16]> {
        let mut words: SmallVec<[u32; 16]> = self.any_words.into();
        self.holding.iter().for_each(|set| words.extend(set.words()));
        words.sort_unstable();
        words.dedup();
        words
    }
}

/// An index for each identity or header that enough rules ask for, and for each rule the tests that are left.
fn index_values(
    rules: &[Rule],
    compiled: &[CompiledRule],
    identities: &Identities,
) -> (Vec<Dimension<Values>>, Vec<Vec<usize>>) {
    let mut asking: HashMap<IdentityId, usize, FixedState> = HashMap::default();
    for (id, _) in compiled.iter().flat_map(|rule| &rule.conditions.tests) {
        *asking.entry(*id).or_default() += 1;
    }
    let is_indexed = |id: &IdentityId| {
        // The pattern that matched is another one for each rule, so it cannot be looked up for all.
        is_worth_an_index(asking.get(id).copied().unwrap_or(0), rules.len()) && !identities.known(*id).per_rule
    };
    let mut dimensions: Vec<(IdentityId, Dimension<Values>)> = Vec::new();
    let mut others = vec![Vec::new(); rules.len()];
    for (rule, (of_rule, compiled)) in (0..).zip(rules.iter().zip(compiled)) {
        let asked = of_rule.when.headers.iter().chain(&of_rule.when.identities).map(|(_, condition)| condition);
        let mut seen: SmallVec<[IdentityId; 4]> = SmallVec::new();
        for (at, ((id, _), condition)) in compiled.conditions.tests.iter().zip(asked).enumerate() {
            // A second condition on the same value must hold as well, so it is not for the same index.
            if !is_indexed(id) || seen.contains(id) {
                others[rule as usize].push(at);
                continue;
            }
            seen.push(*id);
            // The index knows what it may be, and not what it must not be.
            if matches!(condition, Condition::OneOfBut { .. }) {
                others[rule as usize].push(at);
            }
            let position = dimensions.iter().position(|(known, _)| known == id).unwrap_or_else(|| {
                dimensions.push((*id, Dimension::new(rules.len(), Values::text(*id))));
                dimensions.len() - 1
            });
            let dimension = &mut dimensions[position].1;
            dimension.care_if(rule, true);
            dimension.index.insert(rule, *id, condition, identities);
        }
    }
    (dimensions.into_iter().map(|(_, dimension)| dimension).collect(), others)
}

impl Values {
    fn text(id: IdentityId) -> Values {
        Values::Text { id, present: RuleSet::default(), absent: RuleSet::default(), map: TextMap::new() }
    }

    fn insert(&mut self, rule: u32, id: IdentityId, condition: &Condition, identities: &Identities) {
        let Values::Text { present, absent, map, .. } = self else { return };
        match condition {
            Condition::Present => present.insert(rule),
            Condition::Absent => absent.insert(rule),
            Condition::OneOfBut { these, .. } if these.is_empty() => present.insert(rule),
            Condition::OneOf(patterns) | Condition::OneOfBut { these: patterns, .. } => {
                for pattern in patterns {
                    map.entry(identities.pattern(id, pattern)).insert(rule);
                }
            }
        }
    }
}

fn index_networks(rules: &[Rule]) -> Option<Dimension<Values>> {
    // The index finds the networks that an address is in, so rules for the others ask for themselves.
    let indexed = |rule: &Rule| rule.when.network.as_ref().filter(|networks| !networks.is_outside()).cloned();
    let asking = rules.iter().filter_map(indexed).count();
    if !is_worth_an_index(asking, rules.len()) {
        return None;
    }
    let mut map = NetworkMap::<RuleSet>::new();
    let mut dimension = Dimension::new(rules.len(), ());
    for (at, rule) in (0..).zip(rules) {
        let Some(networks) = indexed(rule) else { continue };
        dimension.care_if(at, true);
        for network in meant(&networks) {
            map.entry(network).insert(at);
        }
    }
    let Dimension { any, any_words, caring, .. } = dimension;
    Some(Dimension { any, any_words, caring, index: Values::Network(map) })
}

fn is_worth_an_index(asking: usize, rules: usize) -> bool {
    asking >= INDEXED_RULES_MIN && asking * INDEXED_SHARE >= rules
}
