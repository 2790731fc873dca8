//! One path pattern, compared with one path.

use crate::compiled::path::pattern::{PathPattern, Segment};

/// A pattern that is compared by itself.
#[derive(Debug)]
pub(super) struct PatternTest {
    /// As it is shown.
    text: Box<[u8]>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// One path, which is the text.
    Exact,
    /// Everything below a path.
    Below(Box<[u8]>),
    /// Some segments may be any; `None` for those.
    Segments { segments: Vec<Option<Box<[u8]>>>, below: bool },
}

impl PatternTest {
    pub(super) fn new(pattern: &PathPattern) -> PatternTest {
        let kind = if !pattern.is_wild() {
            Kind::Exact
        } else if pattern.segments.iter().all(|segment| matches!(segment, Segment::Text(_))) {
            Kind::Below(pattern.segments.iter().flat_map(path_bytes).collect())
        } else {
            let fixed = |segment: &Segment| match segment {
                Segment::Text(text) => Some(text.clone()),
                Segment::Any(_) => None,
            };
            Kind::Segments { segments: pattern.segments.iter().map(fixed).collect(), below: pattern.below }
        };
        PatternTest { text: pattern.text.as_slice().into(), kind }
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether a path matches. `slash` says whether it was sent with a slash at its end.
    #[inline]
    pub(super) fn matches(&self, path: &[u8], slash: bool) -> bool {
        match &self.kind {
            Kind::Exact => self.text.len() == path.len() && *self.text == *path,
            Kind::Below(above) => match path.get(above.len()) {
                Some(next) => *next == b'/' && path.starts_with(above),
                None => slash && *path == **above,
            },
            Kind::Segments { segments, below } => match_segments(segments, *below, path, slash),
        }
    }
}

/// A segment behind its slash.
fn path_bytes(segment: &Segment) -> Vec<u8> {
    let (Segment::Text(text) | Segment::Any(text)) = segment;
    [b"/", &**text].concat()
}

fn match_segments(segments: &[Option<Box<[u8]>>], below: bool, path: &[u8], slash: bool) -> bool {
    let mut rest = path.get(1..).filter(|rest| !rest.is_empty());
    for wanted in segments {
        let Some(behind) = rest else { return false };
        let end = behind.iter().position(|byte| *byte == b'/');
        let segment = &behind[..end.unwrap_or(behind.len())];
        let is_wanted = wanted.as_ref().map_or(!segment.is_empty(), |wanted| **wanted == *segment);
        if !is_wanted {
            return false;
        }
        rest = end.map(|end| &behind[end + 1..]);
    }
    if below { rest.is_some() || slash } else { rest.is_none() }
}
