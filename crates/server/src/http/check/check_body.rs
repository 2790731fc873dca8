//! The body of a check, and a fast path for the usual form of it. Every other body goes to the [strict
//! parser](super::strict_body), which reports errors.
//!
//! The fast path is worth 12 % of the requests a second for a body with a method, a path, three headers
//! and an identity (0.87 of the floor of the HTTP benchmark with it, 0.77 without), and less
//! than 2 % for a body that has only an address.

use std::net::IpAddr;

use serde_json::Value;
use tollgate::Request;
use tollgate::policy::parse_address;

use super::strict_body;
use crate::http::problem::ProblemDetails;

/// The maximum number of members of an object on the fast path. With more, the search for duplicate names would be
/// slow.
pub(super) const MAX_PAIRS: usize = 32;

/// The maximum number of header lines on the fast path. With more, the strict parser reads the body and applies its own limit.
pub(super) const MAX_LINES: usize = 128;

/// The body of a check, which describes a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct CheckBody<'a> {
    pub(super) ip: Option<IpAddr>,
    pub(super) method: Option<&'a str>,
    pub(super) host: Option<&'a str>,
    pub(super) path: Option<&'a str>,
    pub(super) headers: Option<Pairs<'a>>,
    /// Includes identities that the policy does not declare: a gateway may send more than a policy uses.
    pub(super) identities: Option<Pairs<'a>>,
    pub(super) cost: Option<u64>,
    pub(super) receipt: Option<bool>,
}

/// Names and values.
pub(super) type Pairs<'a> = Vec<(&'a str, &'a str)>;

impl<'a> CheckBody<'a> {
    /// Parses a body. A null member is absent. `tree` holds the result of the strict parser.
    pub(in crate::http) fn parse(body: &'a [u8], tree: &'a mut Value) -> Result<CheckBody<'a>, ProblemDetails> {
        match CheckBody::parse_fast(body) {
            Some(check) => Ok(check),
            None => strict_body::parse(body, tree),
        }
    }

    /// Parses on the fast path; `None` if the strict parser must read the body.
    pub(super) fn parse_fast(body: &'a [u8]) -> Option<CheckBody<'a>> {
        let mut scanner = Scanner::new(str::from_utf8(body).ok()?);
        let mut check = CheckBody::default();
        scanner.object(|name, scanner| check.read(name, scanner))?;
        scanner.end()?;
        Some(check)
    }

    /// Reads the value of a member. Duplicates go to the strict parser.
    fn read(&mut self, name: &str, scanner: &mut Scanner<'a>) -> Option<()> {
        match name {
            "ip" => once(&mut self.ip, scanner.string()?.parse().ok()?),
            "method" => once(&mut self.method, scanner.string()?),
            "host" => once(&mut self.host, scanner.string()?),
            "path" => once(&mut self.path, scanner.string()?),
            "headers" => once(&mut self.headers, headers(scanner)?),
            "identities" => once(&mut self.identities, identities(scanner)?),
            "cost" => once(&mut self.cost, scanner.whole_number()?),
            "receipt" => once(&mut self.receipt, scanner.boolean()?),
            _ => None,
        }
    }

    /// Returns whether the caller requests a receipt.
    pub(in crate::http) fn wants_receipt(&self) -> bool {
        self.receipt.unwrap_or(false)
    }

    /// Returns the described request. Its address is the peer, so that trusted proxies are handled as if they had
    /// connected here.
    pub(in crate::http) fn request(&self) -> Request<'_> {
        let mut request = Request {
            method: self.method.unwrap_or_default(),
            host: self.host,
            target: self.path.unwrap_or_default(),
            identities: self.identities.as_deref().unwrap_or_default(),
            cost: self.cost.unwrap_or(1),
            ..Request::from_peer(self.ip)
        };
        if let Some(headers) = &self.headers {
            request.headers = headers;
        }
        request
    }
}

/// Sets a member; `None` if it is already set.
fn once<T>(member: &mut Option<T>, value: T) -> Option<()> {
    member.replace(value).is_none().then_some(())
}

/// Parses an object of strings.
fn identities<'a>(scanner: &mut Scanner<'a>) -> Option<Pairs<'a>> {
    let mut pairs: Pairs<'a> = Vec::new();
    scanner.object(|name, scanner| {
        let is_new = pairs.iter().all(|(known, _)| *known != name);
        (pairs.len() < MAX_PAIRS && is_new).then_some(())?;
        let value = scanner.string()?;
        is_valid_identity(name, value).then(|| pairs.push((name, value)))
    })?;
    Some(pairs)
}

/// Returns whether an identity can have this value. With an invalid address no per-address rule would match, so the
/// client would have no limit.
pub(super) fn is_valid_identity(identity: &str, value: &str) -> bool {
    identity != "client_ip" || parse_address(value).is_some()
}

/// Parses an object of strings or lists of strings; a list is a header with several lines.
fn headers<'a>(scanner: &mut Scanner<'a>) -> Option<Pairs<'a>> {
    let mut pairs: Pairs<'a> = Vec::new();
    let mut names = 0;
    scanner.object(|name, scanner| {
        (names < MAX_PAIRS && !has_header(&pairs, name)).then_some(())?;
        names += 1;
        let mut add = |line: &'a str| {
            pairs.push((name, line));
            (pairs.len() <= MAX_LINES).then_some(())
        };
        if !scanner.is_at(b'[') {
            return add(scanner.string()?);
        }
        let mut is_empty = true;
        scanner.list(|scanner| {
            is_empty = false;
            add(scanner.string()?)
        })?;
        // A header without lines would hide a duplicate of its name.
        (!is_empty).then_some(())
    })?;
    Some(pairs)
}

/// Returns whether a header exists. Names are case-insensitive.
pub(super) fn has_header(pairs: &Pairs<'_>, name: &str) -> bool {
    pairs.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// Reads plain JSON: escapes, values out of range and malformed input return `None`, and the strict parser reads the
/// body.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text, at: 0 }
    }

    /// Reads an object. `member` receives each name and reads the value.
    fn object(&mut self, mut member: impl FnMut(&'a str, &mut Self) -> Option<()>) -> Option<()> {
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
    fn list(&mut self, mut value: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
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

    /// Reads a string without escapes.
    fn string(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let begun = self.at;
        let length = plain_bytes(self.rest());
        self.at += length;
        self.take_next(b'"')?;
        self.text.get(begun..begun + length)
    }

    /// Reads a non-negative integer without an exponent.
    fn whole_number(&mut self) -> Option<u64> {
        self.skip_space();
        let begun = self.at;
        self.at += self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = self.text.get(begun..self.at)?;
        let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
        // The next byte must end the number.
        let ends = matches!(self.rest().first(), Some(b',' | b'}' | b' ' | b'\t' | b'\n' | b'\r'));
        if has_leading_zero || !ends { None } else { digits.parse().ok() }
    }

    fn boolean(&mut self) -> Option<bool> {
        self.skip_space();
        let (value, length) = match self.rest() {
            [b't', b'r', b'u', b'e', ..] => (true, 4),
            [b'f', b'a', b'l', b's', b'e', ..] => (false, 5),
            _ => return None,
        };
        self.at += length;
        Some(value)
    }

    /// Returns whether the next byte is `byte`.
    fn is_at(&mut self, byte: u8) -> bool {
        self.skip_space();
        self.rest().first() == Some(&byte)
    }

    /// Requires the end of the input.
    fn end(&mut self) -> Option<()> {
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

/// Returns the number of plain bytes at the start of a string, eight at a time: most of a body is strings.
#[inline]
fn plain_bytes(text: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH_BITS: u64 = ONES << 7;
    let (words, rest) = text.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // Sets the high bit of each byte below `bound`. A borrow may set it in later bytes, never in earlier ones.
        let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound)) & !word;
        let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
        let found = (is(b'"') | is(b'\\') | below(word, b' ')) & HIGH_BITS;
        if found != 0 {
            return at * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let plain = rest.iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | ..b' ')).count();
    text.len() - rest.len() + plain
}

#[cfg(test)]
mod tests {
    use super::plain_bytes;

    #[test]
    fn plain_bytes_end_at_quotes_backslashes_and_control_characters() {
        for length in 0..20 {
            for end in (0..=u8::MAX).filter(|byte| matches!(byte, b'"' | b'\\' | ..b' ')) {
                for before in [b' ', b'!', b'#', b'[', b']', b'a', 0x7f, 0x80, 0xa0, 0xff] {
                    let mut text = vec![before; length];
                    assert_eq!(plain_bytes(&text), length);
                    text.extend([end, before, b'"', 0, 1, 2, before, b'\\', 3, 4]);
                    assert_eq!(plain_bytes(&text), length, "{before} {end}");
                }
            }
        }
    }
}
