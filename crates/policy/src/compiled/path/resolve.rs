//! Slashes merged and dots resolved, as one kind of server does it.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::compiled::path::normal::{decode, decode_but};

/// What is done about escapes, beside dots.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escapes {
    /// They have been read already.
    Read,
    /// Each segment is read by itself, so that an escaped slash ends none.
    ReadWithin,
    /// The same, but escaped slashes stay escaped.
    KeepSlashes,
}

/// What some servers do beside.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Habits {
    /// As in Windows and in old programs in C: a backslash is a slash, a name has no dots and spaces at its end, and
    /// a path ends at a zero.
    pub(crate) lenient: bool,
    /// As servers of Java do: a segment ends at its first semicolon.
    pub(crate) parameters: bool,
}

/// Begins with a slash. The last byte is one if it leads to what lies below.
pub(crate) fn resolve(text: &[u8], escapes: Escapes, habits: Habits) -> Vec<u8> {
    let mut path = Vec::with_capacity(text.len() + 1);
    let mut starts: SmallVec<[usize; 16]> = SmallVec::new();
    let mut slash = true;
    for segment in text.split(|byte| *byte == b'/' || (habits.lenient && *byte == b'\\')) {
        let segment = match escapes {
            _ if !segment.contains(&b'%') => Cow::Borrowed(segment),
            Escapes::Read => Cow::Borrowed(segment),
            Escapes::ReadWithin => Cow::Owned(decode(segment)),
            Escapes::KeepSlashes => Cow::Owned(decode_but(segment, |byte| matches!(byte, b'/' | b'\\'))),
        };
        let (name, is_last) = habits.name(&segment);
        slash = matches!(name, b"" | b"." | b"..");
        match name {
            b"" | b"." => {}
            // Never above the root.
            b".." => path.truncate(starts.pop().unwrap_or(0)),
            _ => {
                starts.push(path.len());
                path.push(b'/');
                path.extend_from_slice(name);
            }
        }
        if is_last {
            break;
        }
    }
    if slash || path.is_empty() {
        path.push(b'/');
    }
    path
}

impl Habits {
    /// What is left of a segment, and whether the path ends with it.
    fn name(self, segment: &[u8]) -> (&[u8], bool) {
        let mut name = segment;
        let mut is_last = false;
        if let Some(end) = name.iter().position(|byte| self.lenient && *byte == 0) {
            (name, is_last) = (&name[..end], true);
        }
        if let Some(end) = name.iter().position(|byte| self.parameters && *byte == b';') {
            name = &name[..end];
        }
        if self.lenient {
            name = without_end(name, |byte| byte == b' ');
            if !matches!(name, b"." | b"..") {
                name = without_end(name, |byte| matches!(byte, b'.' | b' '));
            }
        }
        (name, is_last)
    }
}

fn without_end(name: &[u8], is_dropped: impl Fn(u8) -> bool) -> &[u8] {
    let end = name.iter().rposition(|byte| !is_dropped(*byte)).map_or(0, |last| last + 1);
    &name[..end]
}
