//! The path patterns of a policy.

use crate::compiled::path::normal::{decode, without_query};
use crate::model::is_parameter;
use crate::model::{Paths, TrailingSlash};
use crate::request::is_same;

/// A pattern, segment by segment.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern {
    /// As it is shown. Of a pattern that stands for one path, that path.
    pub(crate) text: Vec<u8>,
    pub(crate) segments: Vec<Segment>,
    /// Whether it stands for everything below the segments.
    pub(crate) below: bool,
    form: Form,
}

/// How a pattern is compared by itself.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// It stands for one path, which is its text.
    Exact,
    /// It stands for everything below a path.
    Below,
    /// Some segments may be any.
    Segments,
}

/// What the text of a pattern ends in that stands for everything below.
const BELOW: &[u8] = b"/*";

#[derive(Clone, Debug)]
pub(crate) enum Segment {
    Text(Box<[u8]>),
    /// Any, but not an empty one: `*`, or a parameter with the name as it is written.
    Any(Box<[u8]>),
}

impl PathPattern {
    /// Stars and parameters are seen before anything is decoded: `%2A` is the character.
    pub(crate) fn read(text: &str, paths: Paths) -> PathPattern {
        let text = if paths.ignore_case { text.to_ascii_lowercase() } else { text.to_owned() };
        let path = without_query(text.as_bytes());
        let (path, slash) = path.strip_suffix(b"/").map_or((path, false), |path| (path, true));
        let (path, below) = match path.strip_suffix(BELOW) {
            Some(path) if !slash || paths.trailing_slash == TrailingSlash::Ignore => (path, true),
            _ => (path, false),
        };
        let mut pattern = PathPattern { text: Vec::new(), segments: Vec::new(), below, form: Form::Exact };
        for segment in path.split(|byte| *byte == b'/') {
            pattern.add(segment, paths);
        }
        if slash && !below && !pattern.segments.is_empty() && paths.trailing_slash == TrailingSlash::Keep {
            pattern.segments.push(Segment::Text(Box::default()));
        }
        pattern.text = pattern.shown();
        if pattern.segments.iter().any(|segment| matches!(segment, Segment::Any(_))) {
            pattern.form = Form::Segments;
        } else if below {
            pattern.form = Form::Below;
        }
        pattern
    }

    fn add(&mut self, segment: &[u8], paths: Paths) {
        if segment == b"*" || str::from_utf8(segment).is_ok_and(is_parameter) {
            self.segments.push(Segment::Any(segment.into()));
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
                _ => self.segments.push(Segment::Text(name.into())),
            }
        }
    }

    fn shown(&self) -> Vec<u8> {
        let mut shown = Vec::new();
        for segment in &self.segments {
            shown.push(b'/');
            shown.extend_from_slice(segment.shown());
        }
        if self.below {
            shown.extend_from_slice(BELOW);
        }
        if shown.is_empty() {
            shown.push(b'/');
        }
        shown
    }

    /// Whether it stands for more than one path.
    pub(crate) fn is_wild(&self) -> bool {
        !matches!(self.form, Form::Exact)
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether a path matches. `slash` says whether it was sent with a slash at its end.
    #[inline]
    pub(crate) fn matches(&self, path: &[u8], slash: bool) -> bool {
        match self.form {
            Form::Exact => is_same(&self.text, path),
            Form::Below => {
                let above = self.text.strip_suffix(BELOW).unwrap_or_default();
                match path.get(above.len()) {
                    Some(next) => *next == b'/' && path.starts_with(above),
                    None => slash && *path == *above,
                }
            }
            Form::Segments => self.matches_segments(path, slash),
        }
    }

    fn matches_segments(&self, path: &[u8], slash: bool) -> bool {
        let mut rest = path.get(1..).filter(|rest| !rest.is_empty());
        for wanted in &self.segments {
            let Some(behind) = rest else { return false };
            let end = behind.iter().position(|byte| *byte == b'/');
            let segment = &behind[..end.unwrap_or(behind.len())];
            let is_wanted = match wanted {
                Segment::Text(text) => **text == *segment,
                Segment::Any(_) => !segment.is_empty(),
            };
            if !is_wanted {
                return false;
            }
            rest = end.map(|end| &behind[end + 1..]);
        }
        if self.below { rest.is_some() || slash } else { rest.is_none() }
    }

    /// What comes first is the more specific: one path before many, longer before shorter (the name of a parameter is
    /// no longer than a star), one segment before everything below.
    pub(crate) fn rank(&self) -> (bool, std::cmp::Reverse<usize>, bool) {
        let length = |segment: &Segment| match segment {
            Segment::Text(text) => 1 + text.len(),
            Segment::Any(_) => 2,
        };
        let length = self.segments.iter().map(length).sum::<usize>() + if self.below { 2 } else { 0 };
        (self.is_wild(), std::cmp::Reverse(length), self.below)
    }
}

impl Segment {
    fn shown(&self) -> &[u8] {
        let (Segment::Text(text) | Segment::Any(text)) = self;
        text
    }
}
