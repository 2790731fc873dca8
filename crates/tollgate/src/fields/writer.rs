//! Writes the values of all fields of a response into one buffer: each is a range of it. Every response has several
//! such fields, so writing them must be cheap.

use std::ops::Range;

/// Text that is valid in a header field: visible ASCII and spaces, checked at construction.
#[derive(Clone, Debug)]
pub(crate) struct FieldText(Box<[u8]>);

impl FieldText {
    /// Creates it from a text. Names of rules are valid; other characters are replaced by question marks.
    pub(crate) fn new(text: String) -> FieldText {
        let is_allowed = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        FieldText(text.into_bytes().into_iter().map(|byte| if is_allowed(byte) { byte } else { b'?' }).collect())
    }
}

#[cfg(feature = "tower")]
impl FieldText {
    pub(super) fn header_value(&self) -> http::HeaderValue {
        http::HeaderValue::from_bytes(&self.0).unwrap_or_else(|_| unreachable!("it is checked when it is made"))
    }
}

/// A destination of text.
pub(super) trait TextBuffer {
    fn text_len(&self) -> usize;
    fn push(&mut self, text: &[u8]);
}

impl TextBuffer for Vec<u8> {
    fn text_len(&self) -> usize {
        self.len()
    }

    fn push(&mut self, text: &[u8]) {
        self.extend_from_slice(text);
    }
}

#[cfg(feature = "tower")]
impl TextBuffer for bytes::BytesMut {
    #[inline]
    fn text_len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn push(&mut self, text: &[u8]) {
        self.extend_from_slice(text);
    }
}

/// Writes values one after the other into an empty buffer: [`FieldText`], numbers and separators only.
pub(super) struct FieldWriter<'b, B> {
    buffer: &'b mut B,
    /// The start of the current value.
    start: usize,
}

impl<'b, B: TextBuffer> FieldWriter<'b, B> {
    #[inline]
    pub(super) fn new(buffer: &'b mut B) -> FieldWriter<'b, B> {
        debug_assert!(buffer.text_len() == 0, "positions are those in the whole buffer");
        FieldWriter { buffer, start: 0 }
    }

    #[inline]
    pub(super) fn push(&mut self, text: &FieldText) {
        self.buffer.push(&text.0);
    }

    /// Writes the separator of list items.
    #[inline]
    pub(super) fn push_comma_if_begun(&mut self) {
        if self.buffer.text_len() > self.start {
            self.buffer.push(b", ");
        }
    }

    /// Begins the parameter `t`.
    #[inline]
    pub(super) fn push_t(&mut self) {
        self.buffer.push(b";t=");
    }

    /// Writes a number and returns its range.
    #[inline]
    pub(super) fn push_number(&mut self, number: u64) -> Range<usize> {
        let start = self.buffer.text_len();
        self.buffer.push(itoa::Buffer::new().format(number).as_bytes());
        start..self.buffer.text_len()
    }

    /// Ends the current value and returns its range.
    #[inline]
    pub(super) fn end_value(&mut self) -> Range<usize> {
        let end = self.buffer.text_len();
        std::mem::replace(&mut self.start, end)..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_match_the_standard_library() {
        for value in [0, 7, 10, 99, 100, 12_345_678_901, u64::MAX] {
            let mut text = Vec::new();
            FieldWriter::new(&mut text).push_number(value);
            assert_eq!(text, value.to_string().as_bytes());
        }
    }

    #[test]
    fn values_are_ranges_of_the_buffer() {
        let mut text = Vec::new();
        let mut writer = FieldWriter::new(&mut text);
        writer.push_comma_if_begun();
        writer.push(&FieldText::new("a".to_owned()));
        writer.push_comma_if_begun();
        let digits = writer.push_number(12);
        let values = [writer.end_value(), digits, writer.end_value(), {
            writer.push_comma_if_begun();
            writer.push_number(3);
            writer.end_value()
        }];
        assert_eq!(values.map(|range| &text[range]), [&b"a, 12"[..], b"12", b"", b"3"]);
    }

    #[test]
    fn invalid_field_text_is_replaced() {
        assert_eq!(&*FieldText::new("a \"b\";c\r\n\u{7f}ü\0".to_owned()).0, b"a \"b\";c??????");
    }
}
