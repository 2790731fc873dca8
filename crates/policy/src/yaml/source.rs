/// The text of a file, and where its lines are.
pub(super) struct Source<'t> {
    lines: Vec<&'t str>,
}

/// A place in the text: line and column are counted from 1, all in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Span {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) width: usize,
}

impl<'t> Source<'t> {
    pub(super) fn new(text: &'t str) -> Source<'t> {
        // As YAML has it: a carriage return ends a line too, alone or before a line feed.
        let mut lines = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['\n', '\r']) {
            lines.push(&rest[..at]);
            let after = &rest[at..];
            rest = after.strip_prefix("\r\n").unwrap_or(&after[1..]);
        }
        lines.push(rest);
        Source { lines }
    }

    /// All lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'t str> {
        self.lines.iter().copied()
    }

    /// The line of this number, counted from 1; empty beyond the end.
    pub(super) fn line(&self, number: usize) -> &'t str {
        number.checked_sub(1).and_then(|at| self.lines.get(at)).copied().unwrap_or_default()
    }
}

impl Span {
    /// The part of it that begins `offset` characters later.
    pub(super) fn from(self, offset: usize) -> Span {
        let offset = offset.min(self.width);
        Span { column: self.column + offset, width: (self.width - offset).max(1), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_end_counts() {
        let source = Source::new("a\nb\r\nc\rd");
        let lines: Vec<&str> = (0..=5).map(|number| source.line(number)).collect();
        assert_eq!(lines, ["", "a", "b", "c", "d", ""]);
    }
}
