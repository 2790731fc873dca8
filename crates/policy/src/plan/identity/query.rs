//! Values of query parameters.

use std::borrow::Cow;

use crate::plan::path::decode;

/// The value of a parameter, decoded like its name. The first of several that
/// has a value counts.
pub(crate) fn value<'a>(target: &'a str, name: &str) -> Option<Cow<'a, [u8]>> {
    let target = target.split_once('#').map_or(target, |(before, _)| before);
    let (_, query) = target.split_once('?')?;
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let found = *decoded(key) == *name.as_bytes() && !value.is_empty();
        found.then(|| decoded(value))
    })
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
    fn names_and_values_are_decoded() {
        for (target, expected) in [
            ("/?key=a", Some("a")),
            ("/?x=1&key=a&key=b", Some("a")),
            ("/?key=&key=b", Some("b")),
            ("/?%6bey=a%20b", Some("a b")),
            ("/?key=a+b%2B%zz", Some("a b+%zz")),
            ("/?key=a#?key=b", Some("a")),
            ("/?a?key=b", None),
            ("/?key", None),
            ("/key=a", None),
            ("/#?key=a", None),
            ("", None),
        ] {
            assert_eq!(value(target, "key").as_deref(), expected.map(str::as_bytes), "{target}");
        }
    }
}
