//! JSON: a writer, and parsers that are stricter than most.

pub(in crate::http) mod members;
pub(in crate::http) mod scanner;
pub(in crate::http) mod strict_json;
pub(in crate::http) mod text;

use std::ops::Range;

/// Writes JSON, piece by piece. Pieces are inlined: most are known where they
/// are written, and to call for a dozen bytes costs more than to copy them.
pub(super) struct Json<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Json<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Json<'a> {
        Json { out }
    }

    /// What is JSON already.
    #[inline(always)]
    pub(super) fn raw(&mut self, json: &str) -> &mut Json<'a> {
        self.out.extend_from_slice(json.as_bytes());
        self
    }

    /// How much is written.
    pub(super) fn written(&self) -> usize {
        self.out.len()
    }

    /// What was written there before.
    pub(super) fn again(&mut self, written: Range<usize>) -> &mut Json<'a> {
        self.out.extend_from_within(written);
        self
    }

    /// A string that has nothing to be escaped: names of rules and receipts, and words of our own.
    #[inline(always)]
    pub(super) fn word(&mut self, word: &str) -> &mut Json<'a> {
        debug_assert!(word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)), "{word}");
        self.raw("\"").raw(word).raw("\"")
    }

    pub(super) fn number(&mut self, value: u64) -> &mut Json<'a> {
        self.raw(itoa::Buffer::new().format(value))
    }

    #[inline]
    pub(super) fn number_or_null(&mut self, value: Option<u64>) -> &mut Json<'a> {
        match value {
            Some(value) => self.number(value),
            None => self.raw("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn numbers_words_and_what_is_absent() {
        let mut out = Vec::new();
        Json::new(&mut out).raw("[").number(u64::MAX).raw(",").number_or_null(None).raw(",").word("per-ip").raw("]");
        assert_eq!(String::from_utf8(out).unwrap(), r#"[18446744073709551615,null,"per-ip"]"#);
    }
}
