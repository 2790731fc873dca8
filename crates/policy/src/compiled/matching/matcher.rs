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
use crate::compiled::matching::conditions::{Conditions, TextMap};
use crate::compiled::matching::entries::{Domains, EntrySets};
use crate::compiled::matching::hosts::Hosts;
use crate::compiled::matching::methods::Methods;
use crate::compiled::path::routes::Routes;
use crate::model::{Condition, Rule};

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
    pub(crate) routes: Routes,
    /// The rules that are for any path.
    any_path: DenseSet,
    /// Those for which any rule cares: what is at hand comes first, then values, which are read where a rule that cares
    /// is still in question.
    dimensions: Vec<Dimension>,
    at_hand: usize,
    /// For each rule the tests that are in no index.
    others: Vec<Vec<usize>>,
    /// Whether networks are indexed, too, or left to each rule.
    networks_indexed: bool,
}

/// One kind of condition.
#[derive(Debug)]
struct Dimension {
    /// The rules that do not care.
    any: DenseSet,
    index: Index,
}

/// Which rules ask for what, in one dimension.
#[derive(Debug)]
pub(crate) enum Index {
    Domains(Domains),
    Entries(EntrySets),
    Methods(Methods),
    Hosts(Hosts),
    /// By the patterns that the path matches, which the values of a request have.
    Paths,
    Network(NetworkMap<RuleSet>),
    Text {
        id: IdentityId,
        present: RuleSet,
        absent: RuleSet,
        map: TextMap<RuleSet>,
    },
}

/// A dimension, looked up.
struct Side<'a> {
    any: &'a DenseSet,
    /// The sets of the rules whose condition holds.
    holding: SmallVec<[&'a RuleSet; 4]>,
}

impl Matcher {
    pub(crate) fn compile(rules: &[Rule], compiled: &[CompiledRule], identities: &Identities) -> Matcher {
        let (mut domains, mut methods, mut hosts) = (Domains::default(), Methods::default(), Hosts::default());
        for (at, rule) in (0..).zip(rules) {
            for domain in &rule.when.domains {
                domains.entry(domain.as_str().into()).or_default().insert(at);
            }
            rule.when.methods.iter().for_each(|method| methods.insert(method, at));
            rule.when.hosts.iter().for_each(|host| hosts.insert(host, at));
        }
        let any = |cares: fn(&Rule) -> bool| DenseSet::of(rules.len(), |rule| !cares(&rules[rule]));
        let any_path = any(|rule| !rule.when.paths.is_empty());
        let at_hand = [
            (any(|rule| !rule.when.domains.is_empty()), Index::Domains(domains)),
            (any(|rule| rule.when.exact_entries), Index::Entries(EntrySets::compile(rules, identities))),
            (any(|rule| !rule.when.methods.is_empty()), Index::Methods(methods)),
            (any(|rule| !rule.when.hosts.is_empty()), Index::Hosts(hosts)),
            (any_path.clone(), Index::Paths),
        ];
        let cared_for = at_hand.into_iter().filter(|(any, _)| !any.is_all());
        let mut dimensions: Vec<Dimension> = cared_for.map(|(any, index)| Dimension { any, index }).collect();
        let at_hand = dimensions.len();
        let networks = index_networks(rules);
        let (values, others) = index_values(rules, compiled, identities);
        let networks_indexed = networks.is_some();
        dimensions.extend(networks.into_iter().chain(values));
        let routes = Routes::compile(rules, identities.paths);
        Matcher {
            all: DenseSet::of(rules.len(), |_| true),
            routes,
            any_path,
            dimensions,
            at_hand,
            others,
            networks_indexed,
        }
    }

    /// Calls `visit` for each rule whose conditions hold, in order.
    pub(crate) fn each<'a>(&'a self, rules: &[CompiledRule], values: &RequestValues<'_>, mut visit: impl FnMut(u32)) {
        // A word holds all rules of most policies, and then there is nothing to plan.
        if self.all.word_count() == 1 {
            let mut bits = self.all.word(0);
            for Dimension { any, index } in &self.dimensions {
                let mut holding = any.word(0);
                if bits & !holding != 0 {
                    self.find(index, values, |set| holding |= set.word(0));
                    bits &= holding;
                }
            }
            return self.each_in(0, bits, rules, values, &mut visit);
        }
        let mut sides: SmallVec<[Option<Side<'a>>; 6]> = self.dimensions.iter().map(|_| None).collect();
        let words = self.few_words(values, &mut sides);
        let mut in_word = |word: u32| {
            let mut bits = self.all.word(word);
            for (side, dimension) in sides.iter_mut().zip(&self.dimensions) {
                if bits & !dimension.any.word(word) != 0 {
                    bits &= side.get_or_insert_with(|| self.side(dimension, values)).word(word);
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

    /// The first condition of a rule that does not hold, of those on domain, entries, method, host and path.
    pub(crate) fn failing(&self, rule: u32, values: &RequestValues<'_>) -> Option<&Index> {
        let caring = self.dimensions[..self.at_hand].iter().filter(|dimension| !dimension.any.contains(rule));
        caring.map(|dimension| &dimension.index).find(|index| {
            let mut holds = false;
            self.find(index, values, |set| holds |= set.contains(rule));
            !holds
        })
    }

    /// Calls `take` with each set of rules whose condition in one dimension holds.
    #[inline(always)]
    fn find<'a>(&'a self, index: &'a Index, values: &RequestValues<'_>, mut take: impl FnMut(&'a RuleSet)) {
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
                let carried = client.and_then(carried).map(IpAddr::V4);
                client.into_iter().chain(carried).flat_map(|address| map.find(address)).for_each(take);
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

    fn side<'a>(&'a self, dimension: &'a Dimension, values: &RequestValues<'_>) -> Side<'a> {
        let mut holding = SmallVec::new();
        self.find(&dimension.index, values, |set| holding.push(set));
        Side { any: &dimension.any, holding }
    }

    /// Looks up what is at hand, and returns the words in which the smallest dimension has any rules, if they are few.
    /// Values are looked up for it only where nothing else tells the rules apart.
    fn few_words<'a>(
        &'a self,
        values: &RequestValues<'_>,
        sides: &mut [Option<Side<'a>>],
    ) -> Option<SmallVec<[u32; 16]>> {
        let mut fewest = self.all.word_count() as usize;
        for (at, (side, dimension)) in sides.iter_mut().zip(&self.dimensions).enumerate() {
            if at < self.at_hand {
                fewest = fewest.min(side.insert(self.side(dimension, values)).size());
            } else if fewest > FEW_WORDS && dimension.any.words().len() < fewest {
                *side = Some(self.side(dimension, values));
            }
        }
        let smallest = sides.iter().flatten().min_by_key(|side| side.size())?;
        (smallest.size() < self.all.word_count() as usize).then(|| smallest.words())
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
        self.any_path.contains(rule) || self.routes.of_rule(rule, routes).is_some()
    }

    /// The most specific pattern of any rule.
    #[inline]
    pub(crate) fn any_route(&self, routes: &[u32]) -> Option<&[u8]> {
        routes.first().map(|number| self.routes.text(*number))
    }

    /// The pattern that matched: the rule's own, or anybody's if the rule has none.
    #[inline]
    pub(crate) fn route<'a>(&'a self, rule: u32, routes: &[u32]) -> Option<&'a [u8]> {
        let number =
            if self.any_path.contains(rule) { routes.first().copied() } else { self.routes.of_rule(rule, routes) };
        number.map(|number| self.routes.text(number))
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
) -> (Vec<Dimension>, Vec<Vec<usize>>) {
    let mut asking: HashMap<IdentityId, usize, FixedState> = HashMap::default();
    for (id, _) in compiled.iter().flat_map(|rule| &rule.conditions.tests) {
        *asking.entry(*id).or_default() += 1;
    }
    // The pattern that matched is another one for each rule, so it cannot be looked up for all.
    asking.retain(|id, asking| is_worth_an_index(*asking, rules.len()) && !identities.is_per_rule(*id));
    let mut indexed: Vec<(IdentityId, Index)> = Vec::new();
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
                indexed.push((*id, Index::text(*id)));
                indexed.len() - 1
            });
            indexed[position].1.insert(rule, *id, condition, identities);
        }
    }
    let asks = |rule: usize, id| compiled[rule].conditions.tests.iter().any(|(asked, _)| *asked == id);
    let dimension = |(id, index)| Dimension { any: DenseSet::of(rules.len(), |rule| !asks(rule, id)), index };
    (indexed.into_iter().map(dimension).collect(), others)
}

impl Index {
    fn text(id: IdentityId) -> Index {
        Index::Text { id, present: RuleSet::default(), absent: RuleSet::default(), map: TextMap::new() }
    }

    fn insert(&mut self, rule: u32, id: IdentityId, condition: &Condition, identities: &Identities) {
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
    let any = DenseSet::of(rules.len(), |rule| !indexed(&rules[rule]));
    Some(Dimension { any, index: Index::Network(map) })
}

fn is_worth_an_index(asking: usize, rules: usize) -> bool {
    asking >= INDEXED_RULES_MIN && asking * INDEXED_SHARE >= rules
}
