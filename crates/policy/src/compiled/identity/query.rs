//! Values of query parameters.

use std::borrow::Cow;

use super::unusable::{Read, Unusable};
use crate::compiled::path::normal::decode;

/// The value of a parameter, decoded once, like its name. The first of several
/// counts.
pub(crate) fn value<'a>(target: &'a str, name: &str) -> Read<'a> {
    let target = target.split_once('#').map_or(target, |(before, _)| before);
    let Some((_, query)) = target.split_once('?') else { return Ok(None) };
    let mut values = query.split('&').filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (*decoded(key) == *name.as_bytes()).then_some(value)
    });
    match values.next() {
        None => Ok(None),
        Some("") if values.any(|value| !value.is_empty()) => Err(Unusable::Hidden),
        Some("") => Ok(None),
        Some(value) => Ok(Some(decoded(value))),
    }
}

fn decoded(text: &str) -> Cow<'_, [u8]> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text.as_bytes());
    }
    Cow::Owned(decode(text.replace('+', " ").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_decoded_and_the_first_counts() {
        for (target, expected) in [
            ("/?key=a", Ok(Some("a"))),
            ("/?x=1&key=a&key=b", Ok(Some("a"))),
            ("/?key=&key=b", Err(Unusable::Hidden)),
            ("/?key&k%65y=b", Err(Unusable::Hidden)),
            ("/?%6bey=a%20b", Ok(Some("a b"))),
            ("/?key=a+b%2B%zz%2561", Ok(Some("a b+%zz%61"))),
            ("/?key=a#?key=b", Ok(Some("a"))),
            ("/?a?key=b", Ok(None)),
            ("/?key", Ok(None)),
            ("/?key=&key", Ok(None)),
            ("/key=a", Ok(None)),
            ("/#?key=a", Ok(None)),
            ("", Ok(None)),
        ] {
            let expected = expected.map(|value| value.map(|text: &str| Cow::Borrowed(text.as_bytes())));
            assert_eq!(value(target, "key"), expected, "{target}");
        }
    }
}
