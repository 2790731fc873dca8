//! The path patterns of a policy.

use crate::compiled::path::normal::{decode, without_query};
use crate::model::is_parameter;
use crate::model::{Paths, TrailingSlash};
use crate::request::is_same;

/// A pattern, segment by segment.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern {
    /// The text for display. For a pattern without wildcards, this is the path that it matches.
    pub(crate) text: Vec<u8>,
    pub(crate) segments: Vec<PatternSegment>,
    /// Whether the pattern matches everything below the segments: it ends in `/*`.
    pub(crate) is_prefix: bool,
    kind: MatchKind,
}

/// The way in which one pattern is compared with a path.
#[derive(Clone, Copy, Debug)]
enum MatchKind {
    /// The pattern matches one path, which is its text.
    Exact,
    /// The pattern matches everything below a path.
    Prefix,
    /// Some segments are wildcards.
    Segments,
}

/// The end of the text of a prefix pattern.
const PREFIX_END: &[u8] = b"/*";

#[derive(Clone, Debug)]
pub(crate) enum PatternSegment {
    Text(Box<[u8]>),
    /// Any segment that is not empty: `*`, or a parameter with its name as written.
    Any(Box<[u8]>),
}

impl PathPattern {
    /// Parses a pattern. Wildcards and parameters are recognised before decoding: `%2A` is a literal star.
    pub(crate) fn read(text: &str, paths: Paths) -> PathPattern {
        let text = if paths.ignore_case { text.to_ascii_lowercase() } else { text.to_owned() };
        let path = without_query(text.as_bytes());
        let (path, slash) = path.strip_suffix(b"/").map_or((path, false), |path| (path, true));
        let (path, is_prefix) = match path.strip_suffix(PREFIX_END) {
            Some(path) if !slash || paths.trailing_slash == TrailingSlash::Ignore => (path, true),
            _ => (path, false),
        };
        let mut pattern = PathPattern { text: Vec::new(), segments: Vec::new(), is_prefix, kind: MatchKind::Exact };
        for segment in path.split(|byte| *byte == b'/') {
            pattern.add(segment, paths);
        }
        if slash && !is_prefix && !pattern.segments.is_empty() && paths.trailing_slash == TrailingSlash::Keep {
            pattern.segments.push(PatternSegment::Text(Box::default()));
        }
        pattern.text = pattern.to_text();
        if pattern.segments.iter().any(|segment| matches!(segment, PatternSegment::Any(_))) {
            pattern.kind = MatchKind::Segments;
        } else if is_prefix {
            pattern.kind = MatchKind::Prefix;
        }
        pattern
    }

    fn add(&mut self, segment: &[u8], paths: Paths) {
        if segment == b"*" || str::from_utf8(segment).is_ok_and(is_parameter) {
            self.segments.push(PatternSegment::Any(segment.into()));
            return;
        }
        let mut decoded = decode(segment);
        if paths.ignore_case {
            decoded.make_ascii_lowercase();
        }
        for name in decoded.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => drop(self.segments.pop()),
                _ => self.segments.push(PatternSegment::Text(name.into())),
            }
        }
    }

    fn to_text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for segment in &self.segments {
            text.push(b'/');
            text.extend_from_slice(segment.text());
        }
        if self.is_prefix {
            text.extend_from_slice(PREFIX_END);
        }
        if text.is_empty() {
            text.push(b'/');
        }
        text
    }

    /// Whether the pattern matches more than one path.
    pub(crate) fn is_wildcard(&self) -> bool {
        !matches!(self.kind, MatchKind::Exact)
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether a path matches. `slash` is whether it was sent with a trailing slash.
    #[inline]
    pub(crate) fn matches(&self, path: &[u8], slash: bool) -> bool {
        match self.kind {
            MatchKind::Exact => is_same(&self.text, path),
            MatchKind::Prefix => {
                let prefix = self.text.strip_suffix(PREFIX_END).unwrap_or_default();
                match path.get(prefix.len()) {
                    Some(next) => *next == b'/' && path.starts_with(prefix),
                    None => slash && *path == *prefix,
                }
            }
            MatchKind::Segments => self.matches_segments(path, slash),
        }
    }

    fn matches_segments(&self, path: &[u8], slash: bool) -> bool {
        let mut rest = path.get(1..).filter(|rest| !rest.is_empty());
        for wanted in &self.segments {
            let Some(remaining) = rest else { return false };
            let end = remaining.iter().position(|byte| *byte == b'/');
            let segment = &remaining[..end.unwrap_or(remaining.len())];
            let is_wanted = match wanted {
                PatternSegment::Text(text) => **text == *segment,
                PatternSegment::Any(_) => !segment.is_empty(),
            };
            if !is_wanted {
                return false;
            }
            rest = end.map(|end| &remaining[end + 1..]);
        }
        if self.is_prefix { rest.is_some() || slash } else { rest.is_none() }
    }

    /// Returns the sort key that orders patterns by specificity, the most specific first: one path before many, longer
    /// before shorter (the name of a parameter counts as one character), one segment before everything below.
    pub(crate) fn rank(&self) -> (bool, std::cmp::Reverse<usize>, bool) {
        let length = |segment: &PatternSegment| match segment {
            PatternSegment::Text(text) => 1 + text.len(),
            PatternSegment::Any(_) => 2,
        };
        let length = self.segments.iter().map(length).sum::<usize>() + if self.is_prefix { 2 } else { 0 };
        (self.is_wildcard(), std::cmp::Reverse(length), self.is_prefix)
    }
}

impl PatternSegment {
    fn text(&self) -> &[u8] {
        let (PatternSegment::Text(text) | PatternSegment::Any(text)) = self;
        text
    }
}
