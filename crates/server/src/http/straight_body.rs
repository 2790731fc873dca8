//! A check read straight from its bytes. It reads what is well formed, and has
//! nothing to say about what is not.

use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::text::Text;

/// Members of an object within the body. Of more, nobody wants to look for two of the same name here.
pub(super) const MAX_PAIRS: usize = 32;

/// Lines of headers. Who has more is looked at more closely, and must not have too many.
pub(super) const MAX_LINES: usize = 128;

/// The members of a check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StraightBody<'a> {
    pub(super) ip: Option<IpAddr>,
    #[serde(borrow)]
    pub(super) method: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) host: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) path: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) headers: Option<Headers<'a>>,
    #[serde(borrow)]
    pub(super) identities: Option<Identities<'a>>,
    pub(super) cost: Option<u64>,
    pub(super) receipt: Option<bool>,
}

impl<'a> StraightBody<'a> {
    /// `None` if it takes a closer look.
    pub(super) fn parse(body: &'a [u8]) -> Option<StraightBody<'a>> {
        // A list would be taken for the members in order.
        let is_object = body.trim_ascii_start().first() == Some(&b'{');
        if is_object { serde_json::from_slice(body).ok() } else { None }
    }
}

/// An object of strings.
pub(super) struct Identities<'a>(pub(super) Vec<(Text<'a>, Text<'a>)>);

/// An object of strings, or of lists of strings.
pub(super) struct Headers<'a>(pub(super) Vec<(Text<'a>, Text<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Identities<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor(PhantomData)).map(Identities)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Headers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields: Vec<(Text<'a>, Lines<'a>)> = deserializer.deserialize_map(PairsVisitor(PhantomData))?;
        let mut headers = Vec::with_capacity(fields.len());
        for (name, lines) in fields {
            match lines {
                Lines::One(line) => headers.push((name, line)),
                Lines::Several(lines) => headers.extend(lines.into_iter().map(|line| (name.clone(), line))),
            }
        }
        if headers.len() > MAX_LINES {
            return Err(D::Error::custom("it takes a closer look"));
        }
        Ok(Headers(headers))
    }
}

/// The lines of one header.
enum Lines<'a> {
    One(Text<'a>),
    Several(Vec<Text<'a>>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Lines<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LinesVisitor)
    }
}

struct LinesVisitor;

impl<'de> Visitor<'de> for LinesVisitor {
    type Value = Lines<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or a list of strings")
    }

    fn visit_borrowed_str<E: Error>(self, line: &'de str) -> Result<Lines<'de>, E> {
        Ok(Lines::One(line.into()))
    }

    fn visit_str<E: Error>(self, line: &str) -> Result<Lines<'de>, E> {
        Ok(Lines::One(line.to_owned().into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut lines: A) -> Result<Lines<'de>, A::Error> {
        let mut read = Vec::new();
        while let Some(line) = lines.next_element()? {
            if read.len() == MAX_LINES {
                return Err(A::Error::custom("it takes a closer look"));
            }
            read.push(line);
        }
        Ok(Lines::Several(read))
    }
}

/// Reads an object in which every name is there once, in the order of the names.
struct PairsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PairsVisitor<T> {
    type Value = Vec<(Text<'de>, T)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut pairs: Self::Value = Vec::new();
        while let Some((name, value)) = members.next_entry::<Text<'de>, T>()? {
            if pairs.len() == MAX_PAIRS || pairs.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom("it takes a closer look"));
            }
            pairs.push((name, value));
        }
        pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(pairs)
    }
}
