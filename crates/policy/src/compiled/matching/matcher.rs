//! Finds the rules that match a request without checking each rule.
//!
//! Every kind of condition is a dimension. A dimension has the set of rules without such a condition, and finds the
//! rules whose condition holds by looking a value up. A rule matches a request if it is in the set of each dimension.
//! Sets are intersected word by word, beginning with the smallest, so that the time per request depends on the rules
//! that nearly match it and hardly on the number of rules.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::compiled::CompiledRule;
use crate::compiled::address::embedded_v4;
use crate::compiled::address::networks::{NetworkMap, named_networks};
use crate::compiled::identity::{IdentityId, IdentityTable, RequestValues};
use crate::compiled::matching::bits::{DenseSet, RuleSet, rules_in};
use crate::compiled::matching::conditions::{Conditions, TextMap};
use crate::compiled::matching::entries::{Domains, EntrySets};
use crate::compiled::matching::hosts::Hosts;
use crate::compiled::matching::methods::Methods;
use crate::compiled::path::routes::RouteTable;
use crate::model::{Condition, Rule};

/// A value is indexed if at least this number of rules have a condition on it ..
const INDEXED_RULES_MIN: usize = 8;
/// .. and at least one in this number of rules: each index costs a lookup for many requests.
const INDEXED_SHARE: usize = 16;
/// With this number of words left or fewer, looking up a value in a further dimension does not pay.
const FEW_WORDS: usize = 2;

/// All rules, indexed.
#[derive(Debug)]
pub(crate) struct Matcher {
    all: DenseSet,
    pub(crate) routes: RouteTable,
    /// The rules without a condition on paths.
    any_path: DenseSet,
    /// The dimensions on which any rule has a condition. Those without identity values come first. Identity values are
    /// read only while a rule with a condition on them may still match.
    dimensions: Vec<Dimension>,
    /// The number of dimensions that need no identity value: the first ones.
    cheap_count: usize,
    /// For each rule, the indexes of its tests that are in no [`Index`].
    unindexed_tests: Vec<Vec<usize>>,
    /// Whether networks are indexed. Otherwise each rule checks its own.
    networks_indexed: bool,
}

/// One kind of condition.
#[derive(Debug)]
struct Dimension {
    /// The rules without a condition in this dimension.
    unconstrained: DenseSet,
    index: Index,
}

/// The index of one dimension: the rules of each value.
#[derive(Debug)]
pub(crate) enum Index {
    Domains(Domains),
    Entries(EntrySets),
    Methods(Methods),
    Hosts(Hosts),
    /// Uses the patterns that the path matches, which are in the request's values.
    Paths,
    Network(NetworkMap<RuleSet>),
    Text {
        id: IdentityId,
        present: RuleSet,
        absent: RuleSet,
        map: TextMap<RuleSet>,
    },
}

/// The result of a lookup in one dimension.
struct DimensionMatches<'a> {
    unconstrained: &'a DenseSet,
    /// The sets of the rules whose condition holds.
    holding: SmallVec<[&'a RuleSet; 4]>,
}

impl Matcher {
    pub(crate) fn compile(rules: &[Rule], compiled: &[CompiledRule], identities: &IdentityTable) -> Matcher {
        let (mut domains, mut methods, mut hosts) = (Domains::default(), Methods::default(), Hosts::default());
        for (index, rule) in (0..).zip(rules) {
            for domain in &rule.when.domains {
                domains.entry(domain.as_str().into()).or_default().insert(index);
            }
            rule.when.methods.iter().for_each(|method| methods.insert(method, index));
            rule.when.hosts.iter().for_each(|host| hosts.insert(host, index));
        }
        let without =
            |has_condition: fn(&Rule) -> bool| DenseSet::from_fn(rules.len(), |rule| !has_condition(&rules[rule]));
        let any_path = without(|rule| !rule.when.paths.is_empty());
        let cheap = [
            (without(|rule| !rule.when.domains.is_empty()), Index::Domains(domains)),
            (without(|rule| rule.when.exact_entries), Index::Entries(EntrySets::compile(rules, identities))),
            (without(|rule| !rule.when.methods.is_empty()), Index::Methods(methods)),
            (without(|rule| !rule.when.hosts.is_empty()), Index::Hosts(hosts)),
            (any_path.clone(), Index::Paths),
        ];
        let constrained = cheap.into_iter().filter(|(unconstrained, _)| !unconstrained.is_all());
        let mut dimensions: Vec<Dimension> =
            constrained.map(|(unconstrained, index)| Dimension { unconstrained, index }).collect();
        let cheap_count = dimensions.len();
        let networks = index_networks(rules);
        let (values, unindexed_tests) = index_values(rules, compiled, identities);
        let networks_indexed = networks.is_some();
        dimensions.extend(networks.into_iter().chain(values));
        let routes = RouteTable::compile(rules, identities.paths);
        Matcher {
            all: DenseSet::from_fn(rules.len(), |_| true),
            routes,
            any_path,
            dimensions,
            cheap_count,
            unindexed_tests,
            networks_indexed,
        }
    }

    /// Calls `visit` for each rule whose conditions hold, in order.
    pub(crate) fn for_each_match<'a>(
        &'a self,
        rules: &[CompiledRule],
        values: &RequestValues<'_>,
        mut visit: impl FnMut(u32),
    ) {
        // All rules of most policies fit into one word, and then no order of words has to be chosen.
        if self.all.word_count() == 1 {
            let mut bits = self.all.word(0);
            for Dimension { unconstrained, index } in &self.dimensions {
                let mut holding = unconstrained.word(0);
                if bits & !holding != 0 {
                    self.look_up(index, values, |set| holding |= set.word(0));
                    bits &= holding;
                }
            }
            return self.for_each_in_word(0, bits, rules, values, &mut visit);
        }
        let mut lookups: SmallVec<[Option<DimensionMatches<'a>>; 6]> = self.dimensions.iter().map(|_| None).collect();
        let words = self.choose_words(values, &mut lookups);
        let mut in_word = |word: u32| {
            let mut bits = self.all.word(word);
            for (matches, dimension) in lookups.iter_mut().zip(&self.dimensions) {
                if bits & !dimension.unconstrained.word(word) != 0 {
                    bits &= matches.get_or_insert_with(|| self.collect_matches(dimension, values)).word(word);
                }
            }
            self.for_each_in_word(word, bits, rules, values, &mut visit);
        };
        match words {
            Some(words) => words.into_iter().for_each(&mut in_word),
            None => (0..self.all.word_count()).for_each(&mut in_word),
        }
    }

    /// Calls `visit` for each rule of a word whose unindexed conditions hold.
    #[inline(always)]
    fn for_each_in_word(
        &self,
        word: u32,
        bits: u64,
        rules: &[CompiledRule],
        values: &RequestValues<'_>,
        visit: &mut impl FnMut(u32),
    ) {
        for rule in rules_in(word, bits) {
            if self.unindexed_hold(rule, &rules[rule as usize].conditions, values) {
                visit(rule);
            }
        }
    }

    /// Returns the index of the first condition of a rule that does not hold, of those on domain, entries, method, host
    /// and path.
    pub(crate) fn failing_index(&self, rule: u32, values: &RequestValues<'_>) -> Option<&Index> {
        let constrained =
            self.dimensions[..self.cheap_count].iter().filter(|dimension| !dimension.unconstrained.contains(rule));
        constrained.map(|dimension| &dimension.index).find(|index| {
            let mut holds = false;
            self.look_up(index, values, |set| holds |= set.contains(rule));
            !holds
        })
    }

    /// Calls `take` with each set of rules whose condition in one dimension holds.
    #[inline(always)]
    fn look_up<'a>(&'a self, index: &'a Index, values: &RequestValues<'_>, mut take: impl FnMut(&'a RuleSet)) {
        let descriptor = values.request.descriptor;
        match index {
            Index::Domains(domains) => {
                descriptor.and_then(|descriptor| domains.get(descriptor.domain)).into_iter().for_each(take);
            }
            Index::Entries(entries) => entries.find(descriptor).into_iter().for_each(take),
            Index::Methods(methods) => methods.find(values).into_iter().for_each(take),
            Index::Hosts(hosts) => values.host.iter().flat_map(|host| hosts.find(host)).for_each(take),
            Index::Paths => values.routes.iter().for_each(|number| take(self.routes.rules(*number))),
            Index::Network(map) => {
                let client = values.client();
                let embedded = client.and_then(embedded_v4).map(IpAddr::V4);
                client.into_iter().chain(embedded).flat_map(|address| map.find(address)).for_each(take);
            }
            Index::Text { id, present, absent, map } => match values.find(*id, None) {
                Some(found) if found.is_usable() => {
                    take(present);
                    map.find(found.id, found.text).for_each(&mut take);
                    if let Some(sent) = values.as_sent(found) {
                        map.find(found.id, &sent).for_each(take);
                    }
                }
                Some(_) => [present, absent].into_iter().for_each(take),
                None => take(absent),
            },
        }
    }

    fn collect_matches<'a>(&'a self, dimension: &'a Dimension, values: &RequestValues<'_>) -> DimensionMatches<'a> {
        let mut holding = SmallVec::new();
        self.look_up(&dimension.index, values, |set| holding.push(set));
        DimensionMatches { unconstrained: &dimension.unconstrained, holding }
    }

    /// Looks up the dimensions that need no identity value, and returns the words in which the smallest dimension has
    /// any rules, if they are fewer than all. Identity values are looked up only if these dimensions leave many words.
    fn choose_words<'a>(
        &'a self,
        values: &RequestValues<'_>,
        lookups: &mut [Option<DimensionMatches<'a>>],
    ) -> Option<SmallVec<[u32; 16]>> {
        let mut fewest = self.all.word_count() as usize;
        for (index, (matches, dimension)) in lookups.iter_mut().zip(&self.dimensions).enumerate() {
            if index < self.cheap_count {
                fewest = fewest.min(matches.insert(self.collect_matches(dimension, values)).size());
            } else if fewest > FEW_WORDS && dimension.unconstrained.words().len() < fewest {
                *matches = Some(self.collect_matches(dimension, values));
            }
        }
        let smallest = lookups.iter().flatten().min_by_key(|matches| matches.size())?;
        (smallest.size() < self.all.word_count() as usize).then(|| smallest.words())
    }

    #[inline(always)]
    fn unindexed_hold(&self, rule: u32, conditions: &Conditions, values: &RequestValues<'_>) -> bool {
        let tests = &self.unindexed_tests[rule as usize];
        if !tests.is_empty() {
            let route = self.route(rule, &values.routes);
            if !tests.iter().all(|test| conditions.holds(*test, values, route)) {
                return false;
            }
        }
        let is_checked = conditions.network.is_none() || (self.networks_indexed && !conditions.outside);
        is_checked || conditions.is_from(values.client())
    }

    /// Whether one of a rule's patterns is among these, or the rule has no condition on paths.
    pub(crate) fn path_matches(&self, rule: u32, routes: &[u32]) -> bool {
        self.any_path.contains(rule) || self.routes.of_rule(rule, routes).is_some()
    }

    /// Returns the most specific pattern of any rule.
    #[inline]
    pub(crate) fn any_route(&self, routes: &[u32]) -> Option<&[u8]> {
        routes.first().map(|number| self.routes.text(*number))
    }

    /// Returns the matched pattern: the rule's own, or that of any rule if the rule has none.
    #[inline]
    pub(crate) fn route<'a>(&'a self, rule: u32, routes: &[u32]) -> Option<&'a [u8]> {
        let number =
            if self.any_path.contains(rule) { routes.first().copied() } else { self.routes.of_rule(rule, routes) };
        number.map(|number| self.routes.text(number))
    }
}

impl DimensionMatches<'_> {
    fn word(&self, word: u32) -> u64 {
        self.holding.iter().fold(self.unconstrained.word(word), |bits, set| bits | set.word(word))
    }

    /// Returns an upper bound of the number of words with any rules.
    fn size(&self) -> usize {
        self.unconstrained.words().len() + self.holding.iter().map(|set| set.words().len()).sum::<usize>()
    }

    fn words(&self) -> SmallVec<[u32; 16]> {
        let mut words: SmallVec<[u32; 16]> = self.unconstrained.words().into();
        self.holding.iter().for_each(|set| words.extend(set.words()));
        words.sort_unstable();
        words.dedup();
        words
    }
}

/// Builds an index for each identity or header on which enough rules have conditions. Returns the indexes, and for each
/// rule the tests that are in no index.
fn index_values(
    rules: &[Rule],
    compiled: &[CompiledRule],
    identities: &IdentityTable,
) -> (Vec<Dimension>, Vec<Vec<usize>>) {
    let mut rule_counts: HashMap<IdentityId, usize, FixedState> = HashMap::default();
    for (id, _) in compiled.iter().flat_map(|rule| &rule.conditions.tests) {
        *rule_counts.entry(*id).or_default() += 1;
    }
    // The matched pattern differs between rules, so it cannot be looked up for all of them.
    rule_counts.retain(|id, count| is_worth_an_index(*count, rules.len()) && !identities.is_per_rule(*id));
    let mut indexed: Vec<(IdentityId, Index)> = Vec::new();
    let mut unindexed_tests = vec![Vec::new(); rules.len()];
    for (rule, (of_rule, compiled)) in (0..).zip(rules.iter().zip(compiled)) {
        let rule_conditions =
            of_rule.when.headers.iter().chain(&of_rule.when.identities).map(|(_, condition)| condition);
        let tests = &compiled.conditions.tests;
        for (test, ((id, _), condition)) in tests.iter().zip(rule_conditions).enumerate() {
            // A second condition on the same value must hold, too, so it cannot be in the same index.
            if !rule_counts.contains_key(id) || tests[..test].iter().any(|(before, _)| before == id) {
                unindexed_tests[rule as usize].push(test);
                continue;
            }
            // The index has the accepted values, but not the excluded ones.
            if matches!(condition, Condition::OneOfBut { .. }) {
                unindexed_tests[rule as usize].push(test);
            }
            let position = indexed.iter().position(|(known, _)| known == id).unwrap_or_else(|| {
                indexed.push((*id, Index::text(*id)));
                indexed.len() - 1
            });
            indexed[position].1.insert(rule, *id, condition, identities);
        }
    }
    let has_test = |rule: usize, id| compiled[rule].conditions.tests.iter().any(|(tested, _)| *tested == id);
    let dimension =
        |(id, index)| Dimension { unconstrained: DenseSet::from_fn(rules.len(), |rule| !has_test(rule, id)), index };
    (indexed.into_iter().map(dimension).collect(), unindexed_tests)
}

impl Index {
    fn text(id: IdentityId) -> Index {
        Index::Text { id, present: RuleSet::default(), absent: RuleSet::default(), map: TextMap::new() }
    }

    fn insert(&mut self, rule: u32, id: IdentityId, condition: &Condition, identities: &IdentityTable) {
        let Index::Text { present, absent, map, .. } = self else { return };
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

fn index_networks(rules: &[Rule]) -> Option<Dimension> {
    // The index finds the networks that contain an address, so rules for all other networks are checked one by one.
    let indexed = |rule: &Rule| rule.when.network.as_ref().is_some_and(|networks| !networks.is_outside());
    let count = rules.iter().filter(|rule| indexed(rule)).count();
    if !is_worth_an_index(count, rules.len()) {
        return None;
    }
    let mut map = NetworkMap::<RuleSet>::new();
    for (index, rule) in (0..).zip(rules).filter(|(_, rule)| indexed(rule)) {
        for network in rule.when.network.iter().flat_map(named_networks) {
            map.entry(network).insert(index);
        }
    }
    let unconstrained = DenseSet::from_fn(rules.len(), |rule| !indexed(&rules[rule]));
    Some(Dimension { unconstrained, index: Index::Network(map) })
}

/// Whether enough of all rules have a condition on a value.
fn is_worth_an_index(count: usize, rules: usize) -> bool {
    count >= INDEXED_RULES_MIN && count * INDEXED_SHARE >= rules
}
