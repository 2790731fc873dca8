//! The fast path for the body of a check, as nearly every caller writes it. Whatever it
//! does not take goes to the strict parser, which says what is wrong.
//!
//! It is worth 12 % of the requests a second for a body with a method, a path, three headers
//! and an identity (0.87 of the floor of the HTTP benchmark with it, 0.77 without), and less
//! than 2 % for a body that has only an address.

use std::net::IpAddr;

use super::check_body::can_be;
use crate::http::json::scanner::Scanner;
use crate::http::json::text::Text;

/// Members of an object within the body. Of more, nobody wants to look for two of the same name here.
pub(in crate::http) const MAX_PAIRS: usize = 32;

/// Lines of headers. Who has more is looked at more closely, and must not have too many.
pub(in crate::http) const MAX_LINES: usize = 128;

/// The members of a check.
#[derive(Default)]
pub(in crate::http) struct FastBody<'a> {
    pub(in crate::http) ip: Option<IpAddr>,
    pub(in crate::http) method: Option<&'a str>,
    pub(in crate::http) host: Option<&'a str>,
    pub(in crate::http) path: Option<&'a str>,
    pub(in crate::http) headers: Option<Pairs<'a>>,
    pub(in crate::http) identities: Option<Pairs<'a>>,
    pub(in crate::http) cost: Option<u64>,
    pub(in crate::http) receipt: Option<bool>,
}

/// Names and values, in the order of the names.
pub(in crate::http) type Pairs<'a> = Vec<(Text<'a>, Text<'a>)>;

impl<'a> FastBody<'a> {
    /// `None` if the strict parser must read it.
    pub(in crate::http) fn parse(body: &'a [u8]) -> Option<FastBody<'a>> {
        let mut scanner = Scanner::new(str::from_utf8(body).ok()?);
        let mut check = FastBody::default();
        scanner.object(|name, scanner| check.read(name, scanner))?;
        scanner.end()?;
        Some(check)
    }

    /// Reads the value of a member. One that is there twice goes to the strict parser.
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
}

fn once<T>(member: &mut Option<T>, value: T) -> Option<()> {
    member.replace(value).is_none().then_some(())
}

/// An object of strings.
fn identities<'a>(scanner: &mut Scanner<'a>) -> Option<Pairs<'a>> {
    let mut pairs: Pairs<'a> = Vec::new();
    scanner.object(|name, scanner| {
        (pairs.len() < MAX_PAIRS && is_new(&pairs, name)).then_some(())?;
        let value = scanner.string()?;
        can_be(name, value).then(|| pairs.push((name.into(), value.into())))
    })?;
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    Some(pairs)
}

/// An object of strings, or of lists of strings: then a header occurs several times.
fn headers<'a>(scanner: &mut Scanner<'a>) -> Option<Pairs<'a>> {
    let mut pairs: Pairs<'a> = Vec::new();
    let mut names = 0;
    scanner.object(|name, scanner| {
        (names < MAX_PAIRS && !has_header(&pairs, name)).then_some(())?;
        names += 1;
        let mut add = |line: &'a str| {
            pairs.push((name.into(), line.into()));
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
        // One without a line leaves nothing by which a second of its name could be known.
        (!is_empty).then_some(())
    })?;
    // The lines of one header stay in their order.
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    Some(pairs)
}

/// Whether there are lines of a header already. Its name has no case.
pub(in crate::http) fn has_header(pairs: &Pairs<'_>, name: &str) -> bool {
    pairs.iter().any(|(known, _)| known.as_str().eq_ignore_ascii_case(name))
}

fn is_new(pairs: &Pairs<'_>, name: &str) -> bool {
    pairs.iter().all(|(known, _)| known.as_str() != name)
}
