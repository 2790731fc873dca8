/// One part of a key as somebody has written it: as keys are shown, or as the value itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyText<'a> {
    /// The value that it stands for.
    Value(Vec<u8>),
    /// What keys show instead of a long value, which cannot be had back.
    Shortened(&'a str),
}

impl KeyText<'_> {
    /// `None` for what no key shows and no value is: nothing at all, a broken escape, or a line end.
    pub(crate) fn read(text: &str) -> Option<KeyText<'_>> {
        if text.is_empty() || text.bytes().any(|byte| byte.is_ascii_control()) {
            return None;
        }
        if let Some((shown, rest)) = text.split_once("\\#") {
            let is_written = shown.is_ascii() && unescaped(shown).is_some() && is_length_and_digest(rest);
            return is_written.then_some(KeyText::Shortened(text));
        }
        unescaped(text).map(KeyText::Value)
    }
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('\\');
    let mut value = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.strip_prefix('x')?.get(..2)?;
        // A sign would be taken for a digit.
        let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        value.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal)?);
        value.extend_from_slice(&part.as_bytes()[3..]);
    }
    Some(value)
}

fn is_length_and_digest(text: &str) -> bool {
    let Some((length, digest)) = text.split_once(':') else { return false };
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    length.parse::<u64>().is_ok() && digest.len() == 64 && digest.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_bytes() {
        assert_eq!(KeyText::read(r"a\x7Cb\xff"), Some(KeyText::Value(b"a|b\xff".to_vec())));
        assert_eq!(KeyText::read("é{"), Some(KeyText::Value("é{".as_bytes().to_vec())));
    }

    #[test]
    fn what_no_key_shows_is_none() {
        for text in ["", "a\n", r"\", r"\x", r"\x4", r"\x+4", r"\xzz", r"\y41", r"\#", r"a\#300:ab", r"\xé"] {
            assert_eq!(KeyText::read(text), None, "{text}");
        }
    }
}
