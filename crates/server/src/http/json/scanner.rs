/// Reads JSON in which nothing is unusual: whatever is escaped, out of range or
/// malformed is `None`, and the strict parser reads it.
pub(in crate::http) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(in crate::http) fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text, at: 0 }
    }

    /// Reads an object. `member` is given each name, and reads the value.
    pub(in crate::http) fn object(&mut self, mut member: impl FnMut(&'a str, &mut Self) -> Option<()>) -> Option<()> {
        self.take(b'{')?;
        if self.is_at(b'}') {
            return self.take(b'}');
        }
        loop {
            let name = self.string()?;
            self.take(b':')?;
            member(name, self)?;
            if !self.is_at(b',') {
                return self.take(b'}');
            }
            self.take(b',')?;
        }
    }

    /// Reads a list, each value by `value`.
    pub(in crate::http) fn list(&mut self, mut value: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.take(b'[')?;
        if self.is_at(b']') {
            return self.take(b']');
        }
        loop {
            value(self)?;
            if !self.is_at(b',') {
                return self.take(b']');
            }
            self.take(b',')?;
        }
    }

    /// A string without escapes.
    pub(in crate::http) fn string(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let begun = self.at;
        let length = self.rest().iter().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
        self.at += length;
        self.take_next(b'"')?;
        self.text.get(begun..begun + length)
    }

    /// A whole number that is not negative, without an exponent.
    pub(in crate::http) fn whole_number(&mut self) -> Option<u64> {
        self.skip_space();
        let begun = self.at;
        self.at += self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = self.text.get(begun..self.at)?;
        let has_needless_zero = digits.len() > 1 && digits.starts_with('0');
        // What follows must end the number.
        let ends = matches!(self.rest().first(), Some(b',' | b'}' | b' ' | b'\t' | b'\n' | b'\r'));
        if has_needless_zero || !ends { None } else { digits.parse().ok() }
    }

    pub(in crate::http) fn boolean(&mut self) -> Option<bool> {
        self.skip_space();
        let (value, length) = match self.rest() {
            [b't', b'r', b'u', b'e', ..] => (true, 4),
            [b'f', b'a', b'l', b's', b'e', ..] => (false, 5),
            _ => return None,
        };
        self.at += length;
        Some(value)
    }

    /// Whether that comes next.
    pub(in crate::http) fn is_at(&mut self, byte: u8) -> bool {
        self.skip_space();
        self.rest().first() == Some(&byte)
    }

    /// Nothing may follow.
    pub(in crate::http) fn end(&mut self) -> Option<()> {
        self.skip_space();
        self.rest().is_empty().then_some(())
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        self.take_next(byte)
    }

    #[inline]
    fn take_next(&mut self, byte: u8) -> Option<()> {
        let is_next = self.rest().first() == Some(&byte);
        self.at += usize::from(is_next);
        is_next.then_some(())
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.rest().first() {
            self.at += 1;
        }
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }
}
