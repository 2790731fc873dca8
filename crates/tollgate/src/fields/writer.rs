//! All fields of a response in one buffer: each is a range of it. Every response has several fields that change, so
//! writing them must cost next to nothing.

use std::ops::Range;

use smallvec::SmallVec;

use super::response::Field;

/// Where text is put.
pub(crate) trait TextBuffer {
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

/// Writes fields one after the other.
pub(crate) struct FieldWriter<'b, B> {
    buffer: &'b mut B,
    /// Where the field that is being written begins.
    start: usize,
    written: WrittenFields,
}

/// Fields, and where each stands in the buffer.
pub(crate) type WrittenFields = SmallVec<[(Field, Range<usize>); 6]>;

impl<'b, B: TextBuffer> FieldWriter<'b, B> {
    #[inline]
    pub(crate) fn new(buffer: &'b mut B) -> FieldWriter<'b, B> {
        let start = buffer.text_len();
        FieldWriter { buffer, start, written: SmallVec::new() }
    }

    /// Whether nothing is written of the next field yet.
    #[inline]
    pub(crate) fn is_begun(&self) -> bool {
        self.buffer.text_len() > self.start
    }

    #[inline]
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.buffer.push(text);
    }

    /// Separates the items of a list.
    #[inline]
    pub(crate) fn push_comma_if_begun(&mut self) {
        if self.is_begun() {
            self.push(b", ");
        }
    }

    #[inline]
    pub(crate) fn push_number(&mut self, number: u64) {
        self.buffer.push(itoa::Buffer::new().format(number).as_bytes());
    }

    /// What was written since the last field is the value of this one; without a value there is no field.
    #[inline]
    pub(crate) fn end(&mut self, field: Field) {
        let end = self.buffer.text_len();
        if end > self.start {
            self.written.push((field, self.start..end));
            self.start = end;
        }
    }

    #[inline]
    pub(crate) fn finish(self) -> WrittenFields {
        self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_does() {
        for value in [0, 7, 10, 99, 100, 12_345_678_901, u64::MAX] {
            let mut text = Vec::new();
            FieldWriter::new(&mut text).push_number(value);
            assert_eq!(text, value.to_string().as_bytes());
        }
    }

    #[test]
    fn fields_are_ranges_of_the_buffer_and_empty_ones_are_left_out() {
        let mut text = b"before".to_vec();
        let mut writer = FieldWriter::new(&mut text);
        writer.push_comma_if_begun();
        writer.push(b"a");
        writer.push_comma_if_begun();
        writer.push_number(12);
        writer.end(Field::RateLimit);
        writer.end(Field::XRateLimitWarning);
        writer.push_number(3);
        writer.end(Field::RetryAfter);
        let written = writer.finish();
        assert_eq!(written.as_slice(), [(Field::RateLimit, 6..11), (Field::RetryAfter, 11..12)]);
        assert_eq!(&text[6..11], b"a, 12");
    }
}
