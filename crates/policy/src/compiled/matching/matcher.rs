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
use crate::compiled::identity::{Identities, IdentityId, RequestValues};
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
pub(crate) struct Matcher {
    all: DenseSet,
    methods: Dimension<Methods>,
    hosts: Dimension<Hosts>,
    pub(crate) routes: Dimension<Routes>,
    domains: Dimension<Domains>,
    pub(crate) entries: Dimension<EntrySets>,
    values: Vec<Dimension<Values>>,
    /// For each rule the tests that are in no index.
    others: Vec<Vec<usize>>,
    /// Whether networks are indexed, too, or left to each rule.
    networks_indexed: bool,
}

/// One kind of condition.
#[derive(Debug)]
pub(crate) struct Dimension<I> {
    /// The rules that do not care.
    any: DenseSet,
    pub(crate) index: I,
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
    holding: Holding<'a>,
}

impl Matcher {
    pub(crate) fn compile(rules: &[Rule], compiled: &[CompiledRule], identities: &Identities) -> Matcher {
        let mut methods = Dimension::new(rules, Methods::default(), |rule| !rule.when.methods.is_empty());
        let mut hosts = Dimension::new(rules, Hosts::default(), |rule| !rule.when.hosts.is_empty());
        let mut domains = Dimension::new(rules, Domains::default(), |rule| !rule.when.domains.is_empty());
        for (at, rule) in (0..).zip(rules) {
            rule.when.methods.iter().for_each(|method| methods.index.insert(method, at));
            rule.when.hosts.iter().for_each(|host| hosts.index.insert(host, at));
            for domain in &rule.when.domains {
                domains.index.entry(domain.as_str().into()).or_default().insert(at);
            }
        }
        let (values, others) = index_values(rules, compiled, identities);
        let networks = index_networks(rules);
        Matcher {
            all: DenseSet::of(rules.len(), |_| true),
            methods,
            hosts,
            routes: Dimension::new(rules, Routes::compile(rules, identities.paths), |rule| !rule.when.paths.is_empty()),
            domains,
            entries: Dimension::new(rules, EntrySets::compile(rules, identities), |rule| rule.when.exact_entries),
            networks_indexed: networks.is_some(),
            values: networks.into_iter().chain(values).collect(),
            others,
        }
    }

    /// Calls `visit` for each rule whose conditions hold, in order.
    pub(crate) fn each<'a>(&'a self, rules: &[CompiledRule], values: &RequestValues<'_>, mut visit: impl FnMut(u32)) {
        // So few rules that a word holds them all and no value is indexed: there is nothing to plan, and most
        // policies are such.
        if self.all.word_count() == 1 && self.values.is_empty() {
            let mut bits = self.all.word(0);
            self.each_side(values, |_, any, holding| {
                bits &= holding.iter().fold(any.word(0), |bits, set| bits | set.word(0));
            });
            return self.each_in(0, bits, rules, values, &mut visit);
        }
        let mut sides: SmallVec<[Side<'a>; 3]> = SmallVec::new();
        self.each_side(values, |_, any, holding| sides.push(Side { any, holding: SmallVec::from_slice(holding) }));
        let mut looked_up: SmallVec<[Option<Side<'a>>; 2]> = self.values.iter().map(|_| None).collect();
        let words = self.few_words(&sides, values, &mut looked_up);
        let mut in_word = |word: u32| {
            let mut bits = sides.iter().fold(self.all.word(word), |bits, side| bits & side.word(word));
            for (side, dimension) in looked_up.iter_mut().zip(&self.values) {
                if bits & !dimension.any.word(word) != 0 {
                    bits &= side.get_or_insert_with(|| dimension.value_side(values)).word(word);
                }
            }
            self.each_in(word, bits, rules, values, &mut visit);
        };
        match words {
            Some(words) => words.into_iter().for_each(&mut in_word),
            None => (0..self.all.word_count()).for_each(&mut in_word),
        }
    }

    /// Calls `visit` for each rule of a word whose other conditions hold.
    #[inline(always)]
    fn each_in(
        &self,
        word: u32,
        bits: u64,
        rules: &[CompiledRule],
        values: &RequestValues<'_>,
        visit: &mut impl FnMut(u32),
    ) {
        for rule in rules_in(word, bits) {
            if self.others_hold(rule, &rules[rule as usize].conditions, values) {
                visit(rule);
            }
        }
    }

    /// Whether the conditions of a rule on method, host, path, domain and entries hold, each by itself.
    pub(crate) fn holds_each(&self, rule: u32, values: &RequestValues<'_>) -> [bool; 5] {
        let mut holds = [true; 5];
        self.each_side(values, |kind, any, holding| {
            holds[kind] = any.contains(rule) || holding.iter().any(|set| set.contains(rule));
        });
        holds
    }

    /// Looks up the method, the host, the path, the domain and the entries, which are at hand: calls `take` for each of
    /// these kinds that any rule cares for, with the rules that do not care and the sets of those whose condition holds.
    #[inline(always)]
    fn each_side<'a>(&'a self, values: &RequestValues<'_>, mut take: impl FnMut(usize, &'a DenseSet, &[&'a RuleSet])) {
        if !self.methods.any.is_all() {
            take(0, &self.methods.any, self.methods.index.find(values).as_slice());
        }
        if !self.hosts.any.is_all() {
            let holding = values.host.as_deref().map(|host| self.hosts.index.find(host)).unwrap_or_default();
            take(1, &self.hosts.any, &holding);
        }
        if !self.routes.any.is_all() {
            let holding: Holding<'a> = values.routes.iter().map(|number| self.routes.index.rules(*number)).collect();
            take(2, &self.routes.any, &holding);
        }
        let descriptor = values.request.descriptor;
        if !self.domains.any.is_all() {
            let found = descriptor.and_then(|descriptor| self.domains.index.get(descriptor.domain));
            take(3, &self.domains.any, found.as_slice());
        }
        if !self.entries.any.is_all() {
            take(4, &self.entries.any, self.entries.index.find(descriptor).as_slice());
        }
    }

    /// The words in which the smallest dimension has any rules, if they are few.
    /// Values are looked up for it only where nothing else tells the rules apart.
    fn few_words<'a>(
        &'a self,
        sides: &[Side<'a>],
        values: &RequestValues<'_>,
        looked_up: &mut [Option<Side<'a>>],
    ) -> Option<SmallVec<[u32; 16]>> {
        let mut fewest = self.all.word_count() as usize;
        let mut smallest = None;
        for side in sides {
            if side.size() < fewest {
                (fewest, smallest) = (side.size(), Some(side));
            }
        }
        if fewest > FEW_WORDS {
            for (side, dimension) in looked_up.iter_mut().zip(&self.values) {
                if dimension.any.words().len() < fewest {
                    *side = Some(dimension.value_side(values));
                }
            }
            for side in looked_up.iter().flatten() {
                if side.size() < fewest {
                    (fewest, smallest) = (side.size(), Some(side));
                }
            }
        }
        smallest.map(Side::words)
    }

    #[inline(always)]
    fn others_hold(&self, rule: u32, conditions: &Conditions, values: &RequestValues<'_>) -> bool {
        let others = &self.others[rule as usize];
        if !others.is_empty() {
            let route = self.route(rule, &values.routes);
            if !others.iter().all(|at| conditions.holds(*at, values, route)) {
                return false;
            }
        }
        let is_known = conditions.network.is_none() || (self.networks_indexed && !conditions.outside);
        is_known || conditions.is_from(values.client())
    }

    /// Whether the paths of a rule are among these, or are not asked for.
    pub(crate) fn is_for(&self, rule: u32, routes: &[u32]) -> bool {
        self.routes.any.contains(rule) || self.routes.index.of_rule(rule, routes).is_some()
    }

    /// The most specific pattern of any rule.
    #[inline]
    pub(crate) fn any_route(&self, routes: &[u32]) -> Option<&[u8]> {
        routes.first().map(|number| self.routes.index.text(*number))
    }

    /// The pattern that matched: the rule's own, or anybody's if the rule has none.
    #[inline]
    pub(crate) fn route<'a>(&'a self, rule: u32, routes: &[u32]) -> Option<&'a [u8]> {
        let number = if self.routes.any.contains(rule) {
            routes.first().copied()
        } else {
            self.routes.index.of_rule(rule, routes)
        };
        number.map(|number| self.routes.index.text(number))
    }
}

impl<I> Dimension<I> {
    fn new(rules: &[Rule], index: I, cares: impl Fn(&Rule) -> bool) -> Dimension<I> {
        Dimension { any: DenseSet::of(rules.len(), |rule| !cares(&rules[rule])), index }
    }
}

impl Dimension<Values> {
    fn value_side<'a>(&'a self, values: &RequestValues<'_>) -> Side<'a> {
        let holding = match &self.index {
            Values::Network(map) => {
                let client = values.client();
                let carried = client.and_then(carried).map(IpAddr::V4);
                client.into_iter().chain(carried).flat_map(|address| map.find(address)).collect()
            }
            Values::Text { id, present, absent, map } => match values.find(*id, None) {
                Some(found) if found.is_usable() => {
                    let sent = values.as_sent(found);
                    let as_sent = sent.iter().flat_map(|sent| map.find(found.id, sent));
                    std::iter::once(present).chain(map.find(found.id, found.text)).chain(as_sent).collect()
                }
                Some(_) => [present, absent].into_iter().collect(),
                None => std::iter::once(absent).collect(),
            },
        };
        Side { any: &self.any, holding }
    }
}

impl Side<'_> {
    fn word(&self, word: u32) -> u64 {
        self.holding.iter().fold(self.any.word(word), |bits, set| bits | set.word(word))
    }

    /// No fewer than the words in which it has any rules.
    fn size(&self) -> usize {
        self.any.words().len() + self.holding.iter().map(|set| set.words().len()).sum::<usize>()
    }

    fn words(&self) -> SmallVec<[u32; 16]> {
        let mut words: SmallVec<[u32; 16]> = self.any.words().into();
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
    // The pattern that matched is another one for each rule, so it cannot be looked up for all.
    asking.retain(|id, asking| is_worth_an_index(*asking, rules.len()) && !identities.is_per_rule(*id));
    let mut indexed: Vec<(IdentityId, Values)> = Vec::new();
    let mut others = vec![Vec::new(); rules.len()];
    for (rule, (of_rule, compiled)) in (0..).zip(rules.iter().zip(compiled)) {
        let asked = of_rule.when.headers.iter().chain(&of_rule.when.identities).map(|(_, condition)| condition);
        let tests = &compiled.conditions.tests;
        for (at, ((id, _), condition)) in tests.iter().zip(asked).enumerate() {
            // A second condition on the same value must hold as well, so it is not for the same index.
            if !asking.contains_key(id) || tests[..at].iter().any(|(before, _)| before == id) {
                others[rule as usize].push(at);
                continue;
            }
            // The index knows what it may be, and not what it must not be.
            if matches!(condition, Condition::OneOfBut { .. }) {
                others[rule as usize].push(at);
            }
            let position = indexed.iter().position(|(known, _)| known == id).unwrap_or_else(|| {
                indexed.push((*id, Values::text(*id)));
                indexed.len() - 1
            });
            indexed[position].1.insert(rule, *id, condition, identities);
        }
    }
    let asks = |rule: usize, id| compiled[rule].conditions.tests.iter().any(|(asked, _)| *asked == id);
    let dimension = |(id, index)| Dimension { any: DenseSet::of(rules.len(), |rule| !asks(rule, id)), index };
    (indexed.into_iter().map(dimension).collect(), others)
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
    let indexed = |rule: &Rule| rule.when.network.as_ref().is_some_and(|networks| !networks.is_outside());
    let asking = rules.iter().filter(|rule| indexed(rule)).count();
    if !is_worth_an_index(asking, rules.len()) {
        return None;
    }
    let mut map = NetworkMap::<RuleSet>::new();
    for (at, rule) in (0..).zip(rules).filter(|(_, rule)| indexed(rule)) {
        for network in rule.when.network.iter().flat_map(meant) {
            map.entry(network).insert(at);
        }
    }
    Some(Dimension::new(rules, Values::Network(map), indexed))
}

fn is_worth_an_index(asking: usize, rules: usize) -> bool {
    asking >= INDEXED_RULES_MIN && asking * INDEXED_SHARE >= rules
}
