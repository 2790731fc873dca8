//! Lists of structured fields (RFC 9651), as far as `RateLimit` and `RateLimit-Policy` use them: items with parameters.

use super::server_hint::saturating_number;

/// The most items of one line that are read.
const MAX_ITEMS: usize = 32;

/// One item of a list: its name, and the text of its parameters.
pub(super) struct ListItem<'a> {
    name: &'a [u8],
    parameters: &'a [u8],
}

impl ListItem<'_> {
    /// Returns the hash of the name. It is never 0.
    pub(super) fn name_hash(&self) -> u64 {
        // FNV-1a: names are short, and a server that makes two of them equal confuses only its own limits.
        let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.name.iter().fold(0xcbf2_9ce4_8422_2325, hash).max(1)
    }

    /// Returns the value of a parameter with a name of one letter, if it is a non-negative integer. The last one
    /// counts.
    pub(super) fn integer(&self, name: u8) -> Option<u64> {
        let mut value = None;
        for parameter in split(self.parameters, b';') {
            if let [first, b'=', digits @ ..] = parameter.trim_ascii()
                && *first == name
            {
                value = saturating_number(digits);
            }
        }
        value
    }
}

/// Returns the items of one line of a list. What is not an item is one without parameters.
pub(super) fn list_items(line: &[u8]) -> impl Iterator<Item = ListItem<'_>> {
    split(line, b',').take(MAX_ITEMS).map(|item| {
        let mut parts = split(item, b';');
        let name = parts.next().unwrap_or_default();
        ListItem { name: name.trim_ascii(), parameters: &item[name.len()..] }
    })
}

/// Splits a text at a separator outside of strings.
fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |byte| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match byte {
            b'"' if !was_escaped => is_quoted = !is_quoted,
            b'\\' if is_quoted && !was_escaped => is_escaped = true,
            _ => return !is_quoted && *byte == separator,
        }
        false
    })
}
