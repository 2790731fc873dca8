//! The index of the path patterns of all rules.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::compiled::matching::bits::RuleSet;
use crate::compiled::path::normal::NormalPath;
use crate::compiled::path::pattern::{PathPattern, PatternSegment};
use crate::model::{Paths, Rule};

/// The numbers of the patterns that a path matches, the most specific first.
pub(crate) type MatchedRoutes = SmallVec<[u32; 8]>;

/// All patterns, numbered by specificity, the most specific first.
#[derive(Debug)]
pub(crate) struct RouteTable {
    patterns: Vec<Route>,
    exact: HashMap<Box<[u8]>, u32, FixedState>,
    /// A trie of the patterns with wildcards, by segments. The first node is the root.
    nodes: Vec<RouteNode>,
}

#[derive(Debug)]
struct Route {
    pattern: PathPattern,
    rules: RuleSet,
}

#[derive(Debug, Default)]
struct RouteNode {
    children: HashMap<Box<[u8]>, u32, FixedState>,
    /// The child for any one segment.
    any: Option<u32>,
    /// The patterns that end at this node: several if they give a segment different names.
    ending: Vec<u32>,
    /// The patterns that match everything below this node.
    prefixes: Vec<u32>,
}

impl RouteTable {
    pub(crate) fn compile(rules: &[Rule], paths: Paths) -> RouteTable {
        let texts =
            (0..).zip(rules).flat_map(|(index, rule)| rule.when.paths.iter().map(move |text| (index, text.as_str())));
        RouteTable::of_texts(texts, paths)
    }

    /// Builds the index of these patterns, each with the position of its rule. Rules must be in their order.
    pub(crate) fn of_texts<'t>(texts: impl Iterator<Item = (u32, &'t str)>, paths: Paths) -> RouteTable {
        let mut by_text: BTreeMap<Vec<u8>, (PathPattern, RuleSet)> = BTreeMap::new();
        for (index, text) in texts.filter(|(_, text)| !text.is_empty()) {
            let pattern = PathPattern::read(text, paths);
            let (_, rules) = by_text.entry(pattern.text.clone()).or_insert_with(|| (pattern, RuleSet::default()));
            rules.insert(index);
        }
        let mut patterns: Vec<(PathPattern, RuleSet)> = by_text.into_values().collect();
        patterns.sort_by_key(|(pattern, _)| pattern.rank());
        let mut routes =
            RouteTable { patterns: Vec::new(), exact: HashMap::default(), nodes: vec![RouteNode::default()] };
        for (number, (pattern, rules)) in (0..).zip(patterns) {
            if pattern.is_wildcard() {
                routes.insert_wildcard(&pattern, number);
            } else {
                routes.exact.insert(pattern.text.clone().into(), number);
            }
            routes.patterns.push(Route { pattern, rules });
        }
        routes
    }

    fn insert_wildcard(&mut self, pattern: &PathPattern, number: u32) {
        let node = pattern.segments.iter().fold(0, |node, segment| self.child_or_new(node, segment));
        let node = &mut self.nodes[node];
        let patterns = if pattern.is_prefix { &mut node.prefixes } else { &mut node.ending };
        patterns.push(number);
    }

    fn child_or_new(&mut self, node: usize, segment: &PatternSegment) -> usize {
        let next = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let node = &mut self.nodes[node];
        let child = match segment {
            PatternSegment::Any(_) => *node.any.get_or_insert(next),
            PatternSegment::Text(text) => *node.children.entry(text.clone()).or_insert(next),
        };
        if child == next {
            self.nodes.push(RouteNode::default());
        }
        child as usize
    }

    /// Returns all patterns that a path matches.
    pub(crate) fn find(&self, path: &NormalPath<'_>) -> MatchedRoutes {
        let mut routes = MatchedRoutes::new();
        if let Some(exact) = self.exact.get(&*path.bytes) {
            routes.push(*exact);
        }
        if self.exact.len() < self.patterns.len() {
            let rest = &path.bytes[1..];
            self.walk(0, (!rest.is_empty()).then_some(rest), path.slash, &mut routes);
            routes.sort_unstable();
        }
        routes
    }

    /// Adds the patterns below a node. `rest` has the remaining segments. The recursion is no deeper than the patterns.
    fn walk(&self, node: u32, rest: Option<&[u8]>, slash: bool, routes: &mut MatchedRoutes) {
        let node = &self.nodes[node as usize];
        if rest.is_some() || slash {
            routes.extend_from_slice(&node.prefixes);
        }
        let Some(rest) = rest else {
            routes.extend_from_slice(&node.ending);
            return;
        };
        if node.children.is_empty() && node.any.is_none() {
            return;
        }
        let end = rest.iter().position(|byte| *byte == b'/');
        let (segment, rest) = end.map_or((rest, None), |end| (&rest[..end], Some(&rest[end + 1..])));
        if let Some(child) = node.children.get(segment) {
            self.walk(*child, rest, slash, routes);
        }
        if let Some(child) = node.any.filter(|_| !segment.is_empty()) {
            self.walk(child, rest, slash, routes);
        }
    }

    /// Returns the rules that have this pattern.
    pub(crate) fn rules(&self, number: u32) -> &RuleSet {
        &self.patterns[number as usize].rules
    }

    pub(crate) fn text(&self, number: u32) -> &[u8] {
        &self.patterns[number as usize].pattern.text
    }

    /// Returns the texts of all patterns, by number.
    pub(crate) fn texts(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.patterns.iter().map(|route| route.pattern.text.as_slice())
    }

    /// Returns all patterns with their rules, by number.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&PathPattern, &RuleSet)> {
        self.patterns.iter().map(|route| (&route.pattern, &route.rules))
    }

    /// Returns the most specific of a rule's own patterns among those that matched.
    pub(crate) fn of_rule(&self, rule: u32, routes: &[u32]) -> Option<u32> {
        routes.iter().copied().find(|number| self.rules(*number).contains(rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiled::path::normal::normalise;
    use crate::compiled::tests::rule;
    use crate::model::TrailingSlash;

    fn matched(patterns: &[&str], target: &str, trailing_slash: TrailingSlash) -> Vec<String> {
        let paths = Paths { trailing_slash, ignore_case: false };
        let mut all = rule("all");
        all.when.paths = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let routes = RouteTable::compile(&[all], paths);
        let found = routes.find(&normalise(target, paths).unwrap());
        found.iter().map(|number| String::from_utf8_lossy(routes.text(*number)).into_owned()).collect()
    }

    #[test]
    fn matched_patterns_are_ordered_by_specificity() {
        let patterns = ["/*", "/a/*", "/a/*/c", "/a/b/c", "/*/b/c", "/a/b/c/*", "/x"];
        for (target, expected) in [
            ("/", &["/*"][..]),
            ("/a", &["/*"]),
            ("/a/", &["/a/*", "/*"]),
            ("/a/b", &["/a/*", "/*"]),
            ("/a/b/c", &["/a/b/c", "/*/b/c", "/a/*/c", "/a/*", "/*"]),
            ("/a/b/c/", &["/a/b/c", "/a/b/c/*", "/*/b/c", "/a/*/c", "/a/*", "/*"]),
            ("/a/b/c/d/e", &["/a/b/c/*", "/a/*", "/*"]),
            ("/z/b/c", &["/*/b/c", "/*"]),
            ("/x/", &["/x", "/*"]),
            ("*", &["/*"]),
        ] {
            assert_eq!(matched(&patterns, target, TrailingSlash::Ignore), expected, "{target}");
        }
    }

    #[test]
    fn parameter_matches_one_segment_that_is_not_empty() {
        let patterns =
            ["/users/{id}", "/users/:user", "/users/*", "/users/me", "/users/{id}/orders/*", "/%7Bid%7D/%2A"];
        for (target, expected) in [
            ("/users/7", &["/users/:user", "/users/{id}", "/users/*"][..]),
            ("/users/me", &["/users/me", "/users/:user", "/users/{id}", "/users/*"]),
            ("/users/7/", &["/users/:user", "/users/{id}", "/users/*"]),
            ("/users", &[]),
            ("/users/", &["/users/*"]),
            ("/users/7/orders", &["/users/*"]),
            ("/users/7/orders/8", &["/users/{id}/orders/*", "/users/*"]),
            // Escaped characters of a pattern are literal.
            ("/{id}/*", &["/{id}/*"]),
            ("/x/y", &[]),
        ] {
            assert_eq!(matched(&patterns, target, TrailingSlash::Ignore), expected, "{target}");
        }
    }

    #[test]
    fn path_with_a_kept_trailing_slash_is_another_path() {
        for (target, expected) in
            [("/a", &["/a"][..]), ("/a/", &["/a/", "/a/*"]), ("/a/b", &["/a/*"]), ("/a/b/", &["/a/*"])]
        {
            assert_eq!(matched(&["/a", "/a/", "/a/*"], target, TrailingSlash::Keep), expected, "{target}");
        }
    }
}
