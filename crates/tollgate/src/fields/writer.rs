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
        const LONGEST: usize = 20;
        let mut text = [0; LONGEST];
        let digits = digits(number).min(LONGEST);
        write_digits(&mut text[..digits], number);
        self.buffer.push(&text[..digits]);
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

/// How many digits a number has.
#[inline]
fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Fills the room with the last digits of a number, two at a time.
#[inline]
fn write_digits(room: &mut [u8], mut number: u64) {
    let mut pairs = room.rchunks_exact_mut(2);
    for pair in pairs.by_ref() {
        pair.copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if let [digit] = pairs.into_remainder() {
        *digit = b'0' + (number % 10) as u8;
    }
}

/// `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

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
