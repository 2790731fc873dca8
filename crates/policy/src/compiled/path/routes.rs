//! The path patterns of all rules, and which of them a path matches.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::compiled::matching::bits::RuleSet;
use crate::compiled::path::normal::NormalPath;
use crate::compiled::path::pattern::{PathPattern, Segment};
use crate::model::{Paths, Rule};

/// The patterns that a path matches, by number, the most specific first.
pub(crate) type MatchedRoutes = SmallVec<[u32; 8]>;

/// All patterns. Their numbers are their order, the most specific first.
#[derive(Debug)]
pub(crate) struct Routes {
    patterns: Vec<Route>,
    exact: HashMap<Box<[u8]>, u32, FixedState>,
    /// Patterns for more than one path, segment by segment. The first node is the root.
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Route {
    pattern: PathPattern,
    rules: RuleSet,
}

#[derive(Debug, Default)]
struct Node {
    children: HashMap<Box<[u8]>, u32, FixedState>,
    /// For any one segment.
    any: Option<u32>,
    /// The patterns that end here: several where they give a segment different names.
    here: Vec<u32>,
    /// The patterns for everything below.
    below: Vec<u32>,
}

impl Routes {
    pub(crate) fn compile(rules: &[Rule], paths: Paths) -> Routes {
        let mut by_text: BTreeMap<Vec<u8>, (PathPattern, RuleSet)> = BTreeMap::new();
        for (at, rule) in (0..).zip(rules) {
            for text in rule.when.paths.iter().filter(|text| !text.is_empty()) {
                let pattern = PathPattern::read(text, paths);
                let (_, rules) = by_text.entry(pattern.text.clone()).or_insert_with(|| (pattern, RuleSet::default()));
                rules.insert(at);
            }
        }
        let mut patterns: Vec<(PathPattern, RuleSet)> = by_text.into_values().collect();
        patterns.sort_by_key(|(pattern, _)| pattern.rank());
        let mut routes = Routes { patterns: Vec::new(), exact: HashMap::default(), nodes: vec![Node::default()] };
        for (number, (pattern, rules)) in (0..).zip(patterns) {
            if pattern.is_wild() {
                routes.plant(&pattern, number);
            } else {
                routes.exact.insert(pattern.text.clone().into(), number);
            }
            routes.patterns.push(Route { pattern, rules });
        }
        routes
    }

    fn plant(&mut self, pattern: &PathPattern, number: u32) {
        let node = pattern.segments.iter().fold(0, |node, segment| self.child_or_new(node, segment));
        let node = &mut self.nodes[node];
        let ending = if pattern.below { &mut node.below } else { &mut node.here };
        ending.push(number);
    }

    fn child_or_new(&mut self, node: usize, segment: &Segment) -> usize {
        let next = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let node = &mut self.nodes[node];
        let child = match segment {
            Segment::Any(_) => *node.any.get_or_insert(next),
            Segment::Text(text) => *node.children.entry(text.clone()).or_insert(next),
        };
        if child == next {
            self.nodes.push(Node::default());
        }
        child as usize
    }

    /// All patterns that a path matches.
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

    /// `rest` are the segments still to come. No path goes deeper than the patterns do.
    fn walk(&self, node: u32, rest: Option<&[u8]>, slash: bool, routes: &mut MatchedRoutes) {
        let node = &self.nodes[node as usize];
        if rest.is_some() || slash {
            routes.extend_from_slice(&node.below);
        }
        let Some(rest) = rest else {
            routes.extend_from_slice(&node.here);
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

    /// The rules that have this pattern.
    pub(crate) fn rules(&self, number: u32) -> &RuleSet {
        &self.patterns[number as usize].rules
    }

    pub(crate) fn text(&self, number: u32) -> &[u8] {
        &self.patterns[number as usize].pattern.text
    }

    /// The texts of all patterns, by number.
    pub(crate) fn texts(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.patterns.iter().map(|route| route.pattern.text.as_slice())
    }

    /// All patterns with the rules that have them, by number.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&PathPattern, &RuleSet)> {
        self.patterns.iter().map(|route| (&route.pattern, &route.rules))
    }

    /// The most specific of a rule's own patterns among those that matched.
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
        let routes = Routes::compile(&[all], paths);
        let found = routes.find(&normalise(target, paths).unwrap());
        found.iter().map(|number| String::from_utf8_lossy(routes.text(*number)).into_owned()).collect()
    }

    #[test]
    fn the_most_specific_pattern_comes_first() {
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
    fn a_parameter_is_one_segment_that_is_not_empty() {
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
            // What is escaped in a pattern is the character.
            ("/{id}/*", &["/{id}/*"]),
            ("/x/y", &[]),
        ] {
            assert_eq!(matched(&patterns, target, TrailingSlash::Ignore), expected, "{target}");
        }
    }

    #[test]
    fn a_kept_slash_is_another_path() {
        for (target, expected) in
            [("/a", &["/a"][..]), ("/a/", &["/a/", "/a/*"]), ("/a/b", &["/a/*"]), ("/a/b/", &["/a/*"])]
        {
            assert_eq!(matched(&["/a", "/a/", "/a/*"], target, TrailingSlash::Keep), expected, "{target}");
        }
    }
}
