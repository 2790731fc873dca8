//! Whether the requests that one `when` describes by method, host and path are among those of another.

use crate::model::When;
use crate::model::is_parameter;

/// More combinations are not looked at.
const MAX_PARTS: usize = 1_000;

/// One method, host and path pattern of a `when`; `None` where it asks for none.
pub(super) struct Part<'w> {
    method: Option<&'w str>,
    host: Option<&'w str>,
    path: Option<&'w str>,
}

/// All combinations of what a `when` lists; `None` where they are too many.
pub(super) fn parts(when: &When) -> Option<Vec<Part<'_>>> {
    let (methods, hosts, paths) = (each(&when.methods), each(&when.hosts), each(&when.paths));
    let count = methods.len().checked_mul(hosts.len())?.checked_mul(paths.len())?;
    if count > MAX_PARTS {
        return None;
    }
    let mut parts = Vec::with_capacity(count);
    for method in &methods {
        for host in &hosts {
            parts.extend(paths.iter().map(|path| Part { method: *method, host: *host, path: *path }));
        }
    }
    Some(parts)
}

fn each(texts: &[String]) -> Vec<Option<&str>> {
    if texts.is_empty() { vec![None] } else { texts.iter().map(|text| Some(text.as_str())).collect() }
}

impl Part<'_> {
    /// Whether every request of this part has a method, a host and a path that are asked for.
    pub(super) fn is_within(&self, when: &When) -> bool {
        let holds = |asked: &[String], own: Option<&str>, is_within: fn(&str, &str) -> bool| {
            asked.is_empty() || asked.iter().any(|outer| own.is_some_and(|own| is_within(own, outer)))
        };
        let any_path = when.paths.iter().any(|path| path == "/*");
        holds(&when.methods, self.method, method_within)
            && holds(&when.hosts, self.host, host_within)
            && (any_path || holds(&when.paths, self.path, path_within))
    }
}

fn method_within(inner: &str, outer: &str) -> bool {
    // GET includes HEAD.
    inner.eq_ignore_ascii_case(outer) || (inner.eq_ignore_ascii_case("HEAD") && outer.eq_ignore_ascii_case("GET"))
}

fn host_within(inner: &str, outer: &str) -> bool {
    let below = |domain: &str| inner.strip_suffix(domain).is_some_and(|before| before.ends_with('.'));
    inner == outer || outer.strip_prefix("*.").is_some_and(below)
}

/// Whether every path that one pattern means is one that another means.
fn path_within(inner: &str, outer: &str) -> bool {
    let (inner, inner_below) = split(inner);
    let (outer, outer_below) = split(outer);
    let alike = |(outer, inner): (&&str, &&str)| is_any(outer) || outer == inner;
    let begins = inner.len() >= outer.len() && outer.iter().zip(&inner).all(alike);
    match (outer_below, inner_below) {
        // What is below the inner one is below the outer one.
        (true, true) => begins,
        (true, false) => begins && inner.len() > outer.len(),
        (false, true) => false,
        (false, false) => begins && inner.len() == outer.len(),
    }
}

/// The segments of a pattern, and whether it means everything below them.
fn split(pattern: &str) -> (Vec<&str>, bool) {
    let (above, below) = match pattern.strip_suffix("/*") {
        Some(above) => (above, true),
        None => (pattern, false),
    };
    (above.split('/').filter(|segment| !segment.is_empty()).collect(), below)
}

/// A segment that stands for any one.
fn is_any(segment: &str) -> bool {
    segment == "*" || is_parameter(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_patterns_are_within_wider_ones_only() {
        for (inner, outer, within) in [
            ("/a", "/a", true),
            ("/a", "/b", false),
            ("/a/b", "/a/*", true),
            ("/a", "/a/*", false),
            ("/a/*", "/a/*", true),
            ("/a/b/*", "/a/*", true),
            ("/a/*", "/a/b/*", false),
            ("/a/*", "/a", false),
            ("/users/*/orders", "/users/*", true),
            ("/users/7/orders", "/users/*/orders", true),
            ("/users/*/orders", "/users/7/orders", false),
            ("/users/{id}", "/users/*", true),
            ("/users/7/x", "/users/:id/x", true),
        ] {
            assert_eq!(path_within(inner, outer), within, "{inner} in {outer}");
        }
    }

    #[test]
    fn hosts_are_within_their_domain() {
        for (inner, outer, within) in [
            ("a.example.com", "*.example.com", true),
            ("*.a.example.com", "*.example.com", true),
            ("example.com", "*.example.com", false),
            ("badexample.com", "*.example.com", false),
            ("*.example.com", "a.example.com", false),
        ] {
            assert_eq!(host_within(inner, outer), within, "{inner} in {outer}");
        }
    }
}
