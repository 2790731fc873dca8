//! All fields of a response in one buffer: each is a range of it. Every response has several fields that change, so
//! writing them must cost next to nothing.

use smallvec::SmallVec;

use super::response::Field;

/// Text that may stand in a header field: visible ASCII and spaces, checked when it is made.
#[derive(Clone, Debug)]
pub(crate) struct FieldText(Box<[u8]>);

impl FieldText {
    /// Names of rules are such text; anything else would be replaced by a question mark.
    pub(crate) fn new(text: String) -> FieldText {
        let is_allowed = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        FieldText(text.into_bytes().into_iter().map(|byte| if is_allowed(byte) { byte } else { b'?' }).collect())
    }
}

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

/// Writes fields one after the other into an empty buffer: nothing but [`FieldText`], numbers and separators.
pub(crate) struct FieldWriter<'b, B> {
    buffer: &'b mut B,
    /// Where the field that is being written begins.
    start: usize,
    written: WrittenFields,
}

/// Fields, and where the value of each stands in the buffer.
pub(crate) type WrittenFields = SmallVec<[WrittenField; 6]>;

/// A field, and where its value stands in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenField {
    pub(crate) field: Field,
    start: u32,
    end: u32,
}

impl WrittenField {
    #[inline]
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl<'b, B: TextBuffer> FieldWriter<'b, B> {
    #[inline]
    pub(crate) fn new(buffer: &'b mut B) -> FieldWriter<'b, B> {
        debug_assert!(buffer.text_len() == 0, "positions are those in the whole buffer");
        FieldWriter { buffer, start: 0, written: SmallVec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, text: &FieldText) {
        self.buffer.push(&text.0);
    }

    /// Separates the items of a list.
    #[inline]
    pub(crate) fn push_comma_if_begun(&mut self) {
        if self.buffer.text_len() > self.start {
            self.buffer.push(b", ");
        }
    }

    /// Begins the parameter `t`.
    #[inline]
    pub(crate) fn push_t(&mut self) {
        self.buffer.push(b";t=");
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
            let position = |at| u32::try_from(at).unwrap_or(u32::MAX);
            self.written.push(WrittenField { field, start: position(self.start), end: position(end) });
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
        let mut text = Vec::new();
        let mut writer = FieldWriter::new(&mut text);
        writer.push_comma_if_begun();
        writer.push(&FieldText::new("a".to_owned()));
        writer.push_comma_if_begun();
        writer.push_number(12);
        writer.end(Field::RateLimit);
        writer.end(Field::XRateLimitWarning);
        writer.push_number(3);
        writer.end(Field::RetryAfter);
        let written = writer.finish();
        let values: Vec<_> = written.iter().map(|written| (written.field, &text[written.range()])).collect();
        assert_eq!(values, [(Field::RateLimit, &b"a, 12"[..]), (Field::RetryAfter, b"3")]);
    }

    #[test]
    fn text_that_no_field_may_have_is_replaced() {
        assert_eq!(&*FieldText::new("a \"b\";c\r\n\u{7f}ü\0".to_owned()).0, b"a \"b\";c??????");
    }
}
