//! The path patterns of all rules, and which of them a path matches.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::bits::RuleSet;
use super::path::{NormalPath, normalise};
use crate::model::{Paths, Rule};

/// The patterns that a path matches, by number, the most specific first.
pub(super) type Matched = SmallVec<[u32; 8]>;

/// All patterns. Their numbers are their order: without stars before with, longer before shorter.
#[derive(Debug)]
pub(super) struct Routes {
    patterns: Vec<Route>,
    exact: HashMap<Box<[u8]>, u32, FixedState>,
    /// Patterns with stars, segment by segment. The first node is the root.
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Route {
    text: Vec<u8>,
    rules: RuleSet,
}

#[derive(Debug, Default)]
struct Node {
    children: HashMap<Box<[u8]>, u32, FixedState>,
    /// For any one segment.
    star: Option<u32>,
    /// The pattern that ends here.
    here: Option<u32>,
    /// The pattern for everything below.
    below: Option<u32>,
}

const STAR: &[u8] = b"*";

impl Routes {
    pub(super) fn compile(rules: &[Rule], paths: Paths) -> Routes {
        let mut by_text: BTreeMap<Vec<u8>, RuleSet> = BTreeMap::new();
        for (at, rule) in (0..).zip(rules) {
            for pattern in rule.when.paths.iter().filter_map(|pattern| normalise(pattern, paths)) {
                by_text.entry(pattern.bytes.into_owned()).or_default().insert(at);
            }
        }
        let mut patterns: Vec<Route> = by_text.into_iter().map(|(text, rules)| Route { text, rules }).collect();
        patterns.sort_by_key(|route| (has_star(&route.text), std::cmp::Reverse(route.text.len())));
        let mut routes = Routes { patterns: Vec::new(), exact: HashMap::default(), nodes: vec![Node::default()] };
        for (number, route) in (0..).zip(patterns) {
            if has_star(&route.text) {
                routes.plant(&route.text, number);
            } else {
                routes.exact.insert(route.text.clone().into(), number);
            }
            routes.patterns.push(route);
        }
        routes
    }

    fn plant(&mut self, text: &[u8], number: u32) {
        let (inner, is_below) = match text.strip_suffix(b"/*") {
            Some(inner) => (inner, true),
            None => (text, false),
        };
        let mut node = 0;
        for segment in inner.split(|byte| *byte == b'/').skip(1) {
            node = self.child_or_new(node, segment);
        }
        if is_below {
            self.nodes[node].below = Some(number);
        } else {
            self.nodes[node].here = Some(number);
        }
    }

    fn child_or_new(&mut self, node: usize, segment: &[u8]) -> usize {
        let next = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let node = &mut self.nodes[node];
        let child = if segment == STAR {
            *node.star.get_or_insert(next)
        } else {
            *node.children.entry(segment.into()).or_insert(next)
        };
        if child == next {
            self.nodes.push(Node::default());
        }
        child as usize
    }

    /// All patterns that a path matches.
    pub(super) fn find(&self, path: &NormalPath<'_>) -> Matched {
        let mut matched = Matched::new();
        if let Some(exact) = self.exact.get(&*path.bytes) {
            matched.push(*exact);
        }
        if self.exact.len() < self.patterns.len() {
            let rest = &path.bytes[1..];
            self.walk(0, (!rest.is_empty()).then_some(rest), path.slash, &mut matched);
            matched.sort_unstable();
        }
        matched
    }

    /// `rest` are the segments still to come. No path goes deeper than the patterns do.
    fn walk(&self, node: u32, rest: Option<&[u8]>, slash: bool, matched: &mut Matched) {
        let node = &self.nodes[node as usize];
        if rest.is_some() || slash {
            matched.extend(node.below);
        }
        let Some(rest) = rest else {
            matched.extend(node.here);
            return;
        };
        if node.children.is_empty() && node.star.is_none() {
            return;
        }
        let end = rest.iter().position(|byte| *byte == b'/');
        let (segment, rest) = end.map_or((rest, None), |end| (&rest[..end], Some(&rest[end + 1..])));
        for child in node.children.get(segment).into_iter().chain(&node.star) {
            self.walk(*child, rest, slash, matched);
        }
    }

    /// The rules that have this pattern.
    pub(super) fn rules(&self, number: u32) -> &RuleSet {
        &self.patterns[number as usize].rules
    }

    pub(super) fn text(&self, number: u32) -> &[u8] {
        &self.patterns[number as usize].text
    }

    /// The texts of all patterns, by number.
    pub(super) fn texts(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.patterns.iter().map(|route| route.text.as_slice())
    }

    /// The most specific of a rule's own patterns among those that matched.
    pub(super) fn of_rule(&self, rule: u32, matched: &[u32]) -> Option<u32> {
        matched.iter().copied().find(|number| self.rules(*number).contains(rule))
    }
}

/// Whether a segment is a star. A star within a segment is itself.
fn has_star(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'/').any(|segment| segment == STAR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TrailingSlash;
    use crate::plan::tests::rule;

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
    fn a_kept_slash_is_another_path() {
        for (target, expected) in
            [("/a", &["/a"][..]), ("/a/", &["/a/", "/a/*"]), ("/a/b", &["/a/*"]), ("/a/b/", &["/a/*"])]
        {
            assert_eq!(matched(&["/a", "/a/", "/a/*"], target, TrailingSlash::Keep), expected, "{target}");
        }
    }
}
