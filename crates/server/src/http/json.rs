/// Writes JSON, piece by piece.
pub(super) struct Json<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Json<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Json<'a> {
        Json { out }
    }

    /// What is JSON already. Always inlined: most pieces are known here, and to call for a dozen bytes costs more
    /// than to copy them.
    #[inline(always)]
    pub(super) fn raw(&mut self, json: &str) -> &mut Json<'a> {
        self.out.extend_from_slice(json.as_bytes());
        self
    }

    /// A word of ours, which has nothing that must be escaped.
    #[inline(always)]
    pub(super) fn word(&mut self, word: &'static str) {
        self.raw("\"").raw(word).raw("\"");
    }

    pub(super) fn boolean(&mut self, value: bool) {
        self.raw(if value { "true" } else { "false" });
    }

    pub(super) fn number(&mut self, value: u64) {
        self.raw(itoa::Buffer::new().format(value));
    }

    pub(super) fn number_or_null(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.number(value),
            None => self.null(),
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
        // Without a way out of the loop it takes half the time.
        if text.bytes().fold(true, |plain, byte| plain & is_plain(byte)) {
            self.raw("\"").raw(text).raw("\"");
        } else {
            self.raw(&serde_json::Value::from(text).to_string());
        }
    }

    pub(super) fn text_or_null(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.null(),
        }
    }

    fn null(&mut self) {
        self.raw("null");
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn text_reads_as_itself() {
        for text in ["", "per-ip", "a \"name\"", "back\\slash", "two\nlines", "\u{0}\u{1f}\u{7f}", "ünïcode\u{2028}"]
        {
            let mut out = Vec::new();
            Json::new(&mut out).text(text);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }

    #[test]
    fn numbers_and_what_is_absent() {
        let mut out = Vec::new();
        let mut json = Json::new(&mut out);
        json.raw("[").number(u64::MAX);
        json.raw(",").number_or_null(None);
        json.raw(",").text_or_null(None);
        json.raw(",").boolean(false);
        json.raw("]");
        assert_eq!(String::from_utf8(out).unwrap(), "[18446744073709551615,null,null,false]");
    }
}
