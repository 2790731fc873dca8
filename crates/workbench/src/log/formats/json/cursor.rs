//! Walks over the members of a JSON object in place. A log line needs a few members of one object; nested values that
//! are not needed are skipped without a tree.

use std::ops::Range;

use memchr::memchr2;

/// A value, as its position in the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JsonValue {
    /// The content of a string.
    Text {
        /// Its position, without the quotes.
        range: Range<usize>,
        /// Whether it contains a backslash.
        is_escaped: bool,
    },
    /// A number, `true`, `false` or `null`.
    Bare(Range<usize>),
    /// An object or an array, with its brackets.
    Nested(Range<usize>),
}

/// A position within an object or an array. The line is given to each call, so that it can be changed in between.
pub(super) struct JsonCursor {
    at: usize,
    close: u8,
    is_first: bool,
}

impl JsonCursor {
    /// Enters the object at a position.
    pub(super) fn object(line: &[u8], at: usize) -> Option<JsonCursor> {
        (line.get(at) == Some(&b'{')).then_some(JsonCursor { at: at + 1, close: b'}', is_first: true })
    }

    /// Returns the position after the object or array, once it has no further values.
    pub(super) fn end(&self) -> usize {
        self.at
    }

    /// Returns the name of the next member; `Ok(None)` at the end. Before the next call, the value must be read, or an
    /// object or array entered and [left](JsonCursor::leave).
    ///
    /// # Errors
    ///
    /// The line is not JSON.
    #[inline]
    pub(super) fn name(&mut self, line: &[u8]) -> Result<Option<Range<usize>>, &'static str> {
        if !self.next(line)? {
            return Ok(None);
        }
        let (name, _) = self.text(line)?;
        self.skip_spaces(line);
        if line.get(self.at) != Some(&b':') {
            return Err("the JSON has no colon after a name");
        }
        self.at += 1;
        self.skip_spaces(line);
        Ok(Some(name))
    }

    /// Enters the value of the member, if it is an object.
    pub(super) fn enter_object(&self, line: &[u8]) -> Option<JsonCursor> {
        JsonCursor::object(line, self.at)
    }

    /// Enters the value of the member, if it is an array.
    pub(super) fn enter_array(&self, line: &[u8]) -> Option<JsonCursor> {
        (line.get(self.at) == Some(&b'[')).then_some(JsonCursor { at: self.at + 1, close: b']', is_first: true })
    }

    /// Continues after an object or array that was read to its end.
    pub(super) fn leave(&mut self, inner: &JsonCursor) {
        self.at = inner.at;
    }

    /// Returns the next element; `Ok(None)` at the end.
    ///
    /// # Errors
    ///
    /// The line is not JSON.
    pub(super) fn element(&mut self, line: &[u8]) -> Result<Option<JsonValue>, &'static str> {
        if self.next(line)? { self.value(line).map(Some) } else { Ok(None) }
    }

    /// Moves to the next value. Returns false at the end.
    fn next(&mut self, line: &[u8]) -> Result<bool, &'static str> {
        self.skip_spaces(line);
        let is_first = std::mem::replace(&mut self.is_first, false);
        match line.get(self.at) {
            Some(close) if *close == self.close => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') if !is_first => {
                self.at += 1;
                self.skip_spaces(line);
                Ok(true)
            }
            Some(_) if is_first => Ok(true),
            Some(_) => Err("the JSON has no comma between two values"),
            None => Err("the JSON is not complete"),
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// The line is not JSON.
    #[inline]
    pub(super) fn value(&mut self, line: &[u8]) -> Result<JsonValue, &'static str> {
        let start = self.at;
        match line.get(start).ok_or("the JSON is not complete")? {
            b'"' => self.text(line).map(|(range, is_escaped)| JsonValue::Text { range, is_escaped }),
            b'{' | b'[' => self.skip_nested(line).map(|()| JsonValue::Nested(start..self.at)),
            _ => {
                let is_bare = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
                self.at += line[start..].iter().take_while(is_bare).count();
                if self.at == start {
                    Err("the JSON has no value after a name")
                } else {
                    Ok(JsonValue::Bare(start..self.at))
                }
            }
        }
    }

    /// Reads a string, and returns its content and whether it contains a backslash.
    fn text(&mut self, line: &[u8]) -> Result<(Range<usize>, bool), &'static str> {
        if line.get(self.at) != Some(&b'"') {
            return Err("the JSON has a name without quotes");
        }
        let start = self.at + 1;
        let mut end = start;
        let mut is_escaped = false;
        loop {
            let rest = line.get(end..).unwrap_or_default();
            end += memchr2(b'"', b'\\', rest).ok_or("the JSON has a string without an end")?;
            if line[end] == b'"' {
                self.at = end + 1;
                return Ok((start..end, is_escaped));
            }
            is_escaped = true;
            end += 2;
        }
    }

    /// Skips an object or an array, without recursion: the depth is the sender's choice.
    fn skip_nested(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let mut depth = 0_usize;
        loop {
            match line.get(self.at).ok_or("the JSON is not complete")? {
                b'"' => {
                    self.text(line)?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn skip_spaces(&mut self, line: &[u8]) {
        while let Some(b' ' | b'\t') = line.get(self.at) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{JsonCursor, JsonValue};

    /// Reads all members as text.
    fn members(line: &str) -> Result<Vec<(String, String)>, &'static str> {
        let bytes = line.as_bytes();
        let mut cursor = JsonCursor::object(bytes, 0).ok_or("not an object")?;
        let mut members = Vec::new();
        while let Some(name) = cursor.name(bytes)? {
            let (JsonValue::Text { range, .. } | JsonValue::Bare(range) | JsonValue::Nested(range)) =
                cursor.value(bytes)?;
            members.push((line[name].to_owned(), line[range].to_owned()));
        }
        if cursor.end() == bytes.len() { Ok(members) } else { Err("text after the object") }
    }

    #[test]
    fn members_are_found_in_order_whatever_their_kind() {
        let line = r#"{"a":"x","b" : 1.5 , "c":{"d":["}",{}]},"e":[],"f":null,"g":"quote \" and \\"}"#;
        let expected = [
            ("a", "x"),
            ("b", "1.5"),
            ("c", r#"{"d":["}",{}]}"#),
            ("e", "[]"),
            ("f", "null"),
            ("g", r#"quote \" and \\"#),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        assert_eq!(members(line), Ok(expected));
        assert_eq!(members("{}"), Ok(Vec::new()));
    }

    #[test]
    fn broken_objects_are_errors() {
        for line in [
            "",
            "[]",
            "{",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1"#,
            r#"{"a":"x}"#,
            r#"{"a":"x\"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":[1}"#,
            r#"{,"a":1}"#,
            r#"{"a":1,}"#,
            r#"{a:1}"#,
            r#"{"a":{"b":1}"#,
            r#"{"a":1}x"#,
        ] {
            assert!(members(line).is_err() || line == r#"{"a":[1}"#, "{line}");
        }
    }
}
