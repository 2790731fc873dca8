//! Parses keys that operators enter into the keys under which requests are counted. A text that can never be a key is
//! an error, because a change to it would seem to succeed and have no effect.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::compiled::CompiledPolicy;
use crate::compiled::address;
use crate::compiled::address::address_text::push_client;
use crate::compiled::identity::{IdentityId, ValueSource};
use crate::compiled::key::key_bytes::{self, KeyBuffer};
use crate::compiled::key::secrets;
use crate::compiled::matching::hosts;
use crate::compiled::path::normal::NormalPath;
use crate::compiled::path::readings::Readings;

/// The largest text that is parsed. Keys of requests are shorter, because each part is shortened.
const MAX_KEY_BYTES: usize = 16 * 1024;

/// The number of patterns or tiers that a message lists.
const LIST_MAX: usize = 8;

/// The reason why a text is not a key of a rule, and the expected form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidKey(String);

impl CompiledPolicy {
    /// Parses a key of a rule. The text may be a key as [`explain`](CompiledPolicy::explain) displays it, or the values
    /// as a request contains them: an address is shortened to its prefix, a path is replaced by the pattern that it
    /// matches, and characters beyond ASCII need no escape.
    pub fn read_key(&self, rule: u32, text: &str) -> Result<String, InvalidKey> {
        let parts = self.rules.get(rule as usize).map_or(&[][..], |rule| &rule.action.key);
        if parts.is_empty() {
            return if text.is_empty() { Ok(String::new()) } else { Err(InvalidKey(EMPTY_KEY.to_owned())) };
        }
        let texts: Vec<&str> = text.split('|').collect();
        if texts.len() != parts.len() || text.len() > MAX_KEY_BYTES {
            return Err(self.wrong_part_count(rule));
        }
        let mut key = KeyBuffer::new();
        for (index, (id, text)) in parts.iter().zip(texts).enumerate() {
            if index > 0 {
                key_bytes::push_separator(&mut key);
            }
            self.push_part(rule, *id, text, &mut key)?;
        }
        // Bytes beyond ASCII are escaped in a key.
        Ok(String::from_utf8_lossy(&key).into_owned())
    }

    /// Parses one part of a key and writes it.
    fn push_part(&self, rule: u32, id: IdentityId, text: &str, key: &mut KeyBuffer) -> Result<(), InvalidKey> {
        let (source, text) = if self.identities.is_list(id) {
            let named =
                |source: &IdentityId| text.strip_prefix(self.identities.get(*source).name.as_str())?.strip_prefix('=');
            let found = self.identities.candidates(id).find_map(|source| Some((source, named(&source)?)));
            let found = found.ok_or_else(|| self.invalid_value(id, text, &self.expected_candidates(id)))?;
            key_bytes::push_name(key, &self.identities.get(found.0).name);
            found
        } else {
            (id, text)
        };
        if let Some(address) =
            text.strip_prefix(key_bytes::UNUSABLE).filter(|_| self.identities.can_be_unusable(source))
        {
            // The address is empty if it was unknown.
            let network = if address.is_empty() { Some(Vec::new()) } else { self.network(address.as_bytes()) };
            let network = network.ok_or_else(|| self.invalid_value(source, text, "an address after the colon"))?;
            key_bytes::push_unusable(key, &network);
            return Ok(());
        }
        let is_secret = self.identities.get(source).secret;
        match KeyText::read(text) {
            // The hash, which is all that is ever displayed, or the value itself.
            Some(_) if is_secret && secrets::is_hashed(text) => key.extend_from_slice(text.as_bytes()),
            Some(KeyText::Value(value)) if is_secret => self.identities.push_value(key, source, &value),
            Some(KeyText::Value(value)) => {
                let value = self.normalise_value(rule, source, &value);
                let value = value.map_err(|expected| self.invalid_value(source, text, &expected))?;
                key_bytes::push_value(key, &value);
            }
            Some(KeyText::Shortened(text)) if !is_secret => key.extend_from_slice(text.as_bytes()),
            _ => return Err(self.invalid_value(source, text, &self.expected(rule, source))),
        }
        Ok(())
    }

    /// Returns the value in the form that a request has in keys, or the expected form.
    fn normalise_value<'v>(&self, rule: u32, id: IdentityId, value: &'v [u8]) -> Result<Cow<'v, [u8]>, String> {
        let text = str::from_utf8(value).ok();
        let found = match &self.identities.get(id).source {
            ValueSource::ClientIp => self.network(value).map(Cow::Owned),
            // A caller may set any value.
            ValueSource::Peer => Some(self.network(value).map_or(Cow::Borrowed(value), Cow::Owned)),
            ValueSource::Method => Some(Cow::Owned(value.to_ascii_uppercase())),
            ValueSource::Host => text.and_then(hosts::normalise).map(|host| Cow::Owned(host.into_owned())),
            ValueSource::Path => {
                let readings = text.and_then(|text| Readings::of(text, self.identities.paths));
                readings.map(|readings| Cow::Owned(self.counted_path(rule, &readings)))
            }
            ValueSource::Route => self.find_pattern(rule, value).map(|pattern| Cow::Owned(pattern.to_vec())),
            ValueSource::Tier => self.identities.tiers.number(value).map(|_| Cow::Borrowed(value)),
            _ => Some(Cow::Borrowed(value)),
        };
        found.ok_or_else(|| self.expected(rule, id))
    }

    /// Returns the network of an address in keys. The value may also be that network, with the prefix length of keys.
    fn network(&self, value: &[u8]) -> Option<Vec<u8>> {
        let text = str::from_utf8(value).ok()?;
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address = address::key_address(address::parse(address.as_bytes())?);
        let prefixes = self.identities.prefixes;
        let key_length = if address.is_ipv4() { prefixes.v4 } else { prefixes.v6 };
        if length.is_some_and(|length| length.parse() != Ok(key_length)) {
            return None;
        }
        let mut network = SmallVec::<[u8; 64]>::new();
        push_client(&mut network, address, prefixes);
        Some(network.to_vec())
    }

    /// Finds a pattern of the rule, by the pattern's text or by a path that matches it.
    fn find_pattern(&self, rule: u32, value: &[u8]) -> Option<&[u8]> {
        if let Some(pattern) = self.patterns_of(rule).find(|pattern| *pattern == value) {
            return Some(pattern);
        }
        let readings = Readings::of(str::from_utf8(value).ok()?, self.identities.paths)?;
        readings.iter().find_map(|path| self.matcher.route(rule, &self.matched_routes(Some(path))))
    }

    /// Returns the reading under which a request for this path is counted: the first that matches the rule.
    fn counted_path(&self, rule: u32, readings: &Readings<'_>) -> Vec<u8> {
        let matches = |path: &&NormalPath<'_>| self.matcher.path_matches(rule, &self.matched_routes(Some(path)));
        readings.iter().find(matches).unwrap_or_else(|| readings.first()).bytes.to_vec()
    }

    /// Returns the patterns that can be part of a rule's key: its own, or those of all rules if it has none.
    fn patterns_of(&self, rule: u32) -> impl Iterator<Item = &[u8]> {
        let routes = &self.matcher.routes;
        let has_own = (0..).zip(routes.texts()).any(|(number, _)| routes.rules(number).contains(rule));
        let can_be = move |number: &u32| !has_own || routes.rules(*number).contains(rule);
        (0..).zip(routes.texts()).filter(move |(number, _)| can_be(number)).map(|(_, pattern)| pattern)
    }

    /// Describes the expected form of a value, for messages.
    fn expected(&self, rule: u32, id: IdentityId) -> String {
        match &self.identities.get(id).source {
            ValueSource::ClientIp => {
                let prefixes = self.identities.prefixes;
                let mut expected = "an address such as 203.0.113.9 or 2001:db8::1".to_owned();
                if prefixes.v6 < 128 {
                    expected.push_str(&format!(", or an IPv6 network with /{}", prefixes.v6));
                }
                if prefixes.v4 < 32 {
                    expected.push_str(&format!(", or an IPv4 network with /{}", prefixes.v4));
                }
                expected
            }
            ValueSource::Route => {
                let patterns = self.patterns_of(rule).map(|pattern| String::from_utf8_lossy(pattern).into_owned());
                format!("a pattern of the rule or a path that matches one: {}", listed(patterns))
            }
            ValueSource::Tier => {
                let tiers = &self.identities.tiers;
                let names = (0..).take(tiers.count()).map(|number| tiers.name(number).to_owned());
                format!("a tier of the policy: {}", listed(names))
            }
            ValueSource::Host => "a host".to_owned(),
            ValueSource::Path => "a path, which begins with a slash".to_owned(),
            _ if self.identities.get(id).secret => format!("{AS_SHOWN}, or the value that was hashed"),
            _ => AS_SHOWN.to_owned(),
        }
    }

    /// Describes the expected form of a value of a list, for messages.
    fn expected_candidates(&self, id: IdentityId) -> String {
        let candidates =
            self.identities.candidates(id).map(|candidate| format!("{}=..", self.identities.get(candidate).name));
        format!("the name of the identity that was found, and its value: {}", listed(candidates))
    }

    fn invalid_value(&self, id: IdentityId, text: &str, expected: &str) -> InvalidKey {
        let name = &self.identities.get(id).name;
        if self.identities.candidates(id).any(|candidate| self.identities.get(candidate).secret) {
            return InvalidKey(format!("not a key of this rule: this cannot be its {name}; expected {expected}"));
        }
        InvalidKey(format!("not a key of this rule: {text:?} cannot be its {name}; expected {expected}"))
    }

    fn wrong_part_count(&self, rule: u32) -> InvalidKey {
        let names = self.key_names(rule);
        InvalidKey(match names.as_slice() {
            [name] => format!(
                "not a key of this rule: expected one {name}, as `tollgate explain` shows it (a bar within it is \\x7c)"
            ),
            names => format!(
                "not a key of this rule: expected {} with bars between them, as `tollgate explain` shows them",
                names.join(" and ")
            ),
        })
    }
}

const EMPTY_KEY: &str = "the rule counts all requests together: its key is empty";

const AS_SHOWN: &str = "a value as `tollgate explain` shows it: not empty, a backslash as \\x5c, a line end as \\x0a";

/// Formats a list of names, and the number of those that are omitted.
fn listed(mut names: impl Iterator<Item = String>) -> String {
    let mut list = names.by_ref().take(LIST_MAX).collect::<Vec<_>>().join(", ");
    let more = names.count();
    if more > 0 {
        list.push_str(&format!(" and {more} more"));
    }
    list
}

/// One part of a key as an operator entered it: encoded as in keys, or the value itself.
#[derive(Debug, PartialEq, Eq)]
enum KeyText<'a> {
    /// The decoded value.
    Value(Vec<u8>),
    /// The short form of a long value, which cannot be restored.
    Shortened(&'a str),
}

impl KeyText<'_> {
    /// Parses one part. `None` for an empty text, an invalid escape or a control character such as a line end.
    fn read(text: &str) -> Option<KeyText<'_>> {
        if text.is_empty() || text.bytes().any(|byte| byte.is_ascii_control()) {
            return None;
        }
        if let Some((shown, rest)) = text.split_once("\\#") {
            let is_short_form = shown.is_ascii() && unescaped(shown).is_some() && is_length_and_digest(rest);
            return is_short_form.then_some(KeyText::Shortened(text));
        }
        unescaped(text).map(KeyText::Value)
    }
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('\\');
    let mut value = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.strip_prefix('x')?.get(..2)?;
        // `from_str_radix` accepts a sign.
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
mod part_tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_to_bytes() {
        assert_eq!(KeyText::read(r"a\x7Cb\xff"), Some(KeyText::Value(b"a|b\xff".to_vec())));
        assert_eq!(KeyText::read("é{"), Some(KeyText::Value("é{".as_bytes().to_vec())));
    }

    #[test]
    fn empty_and_malformed_parts_are_rejected() {
        for text in ["", "a\n", r"\", r"\x", r"\x4", r"\x+4", r"\xzz", r"\y41", r"\#", r"a\#300:ab", r"\xé"] {
            assert_eq!(KeyText::read(text), None, "{text}");
        }
    }
}

#[cfg(test)]
#[cfg(feature = "yaml")]
mod tests {
    use crate::compiled::CompiledPolicy;

    const POLICY: &str = "
version: 1
identity:
  user: { header: x-user, trusted: true }
  caller: { first: [user, client_ip] }
rules:
  - { name: per-ip, key: client_ip, limit: 5/min }
  - { name: items, key: [user, route], when: { path: [/api/*, /api/items, /health] }, limit: 5/min }
  - { name: other, when: { path: /other }, limit: 5/min }
  - { name: per-caller, key: caller, limit: 5/min }
  - { name: per-method, key: [method, path], limit: 5/min }
";

    fn read(rule: &str, text: &str) -> Result<String, String> {
        let compiled = CompiledPolicy::new(&crate::parse(POLICY, "policy", None).unwrap().policy).unwrap();
        compiled.read_key(compiled.rule_named(rule).unwrap(), text).map_err(|error| error.to_string())
    }

    #[test]
    fn entered_values_become_the_keys_of_requests() {
        for (rule, text, key) in [
            ("per-ip", "203.0.113.9", "203.0.113.9"),
            ("per-ip", "203.0.113.9/32", "203.0.113.9"),
            ("per-ip", "::ffff:203.0.113.9", "203.0.113.9"),
            ("per-ip", "2001:db8::1", "2001:db8::/64"),
            ("per-ip", "[2001:DB8::1]:443", "2001:db8::/64"),
            ("per-ip", "2001:db8::/64", "2001:db8::/64"),
            ("items", "alice|/api/*", "alice|/api/*"),
            ("items", "alice|/api/items", "alice|/api/items"),
            ("items", "alice|/api/orders/7", "alice|/api/*"),
            ("items", "alice|//api/./items?page=2", "alice|/api/items"),
            ("items", "中|/health", r"\xe4\xb8\xad|/health"),
            ("items", r"\xE4\xb8\xad|/health", r"\xe4\xb8\xad|/health"),
            ("items", r"a\x7cb{}|/health", r"a\x7cb\x7b\x7d|/health"),
            ("per-caller", "client_ip=2001:db8::1", "client_ip=2001:db8::/64"),
            ("per-caller", "user=a=b", "user=a=b"),
            ("per-method", "get|/a/../b", "GET|/b"),
            ("other", "", ""),
        ] {
            assert_eq!(read(rule, text), Ok(key.to_owned()), "{rule} {text}");
        }
    }

    #[test]
    fn long_values_are_shortened_as_in_keys_of_requests() {
        let long = format!("{}|/health", "a".repeat(300));
        let key = read("items", &long).unwrap();
        assert!(key.len() < 200 && key.contains(r"\#300:"), "{key}");
        assert_eq!(read("items", &key), Ok(key));
    }

    #[test]
    fn impossible_keys_are_errors_that_state_the_expected_form() {
        for (rule, text, expected) in [
            ("per-ip", "1.2.3.4.5", "expected an address such as 203.0.113.9 or 2001:db8::1"),
            ("per-ip", "abc", "\"abc\" cannot be its client_ip"),
            ("per-ip", "2001:db8::/48", "an IPv6 network with /64"),
            ("per-ip", "10.0.0.0/8", "expected an address"),
            ("per-ip", "", "expected an address"),
            ("per-ip", "1.2.3.4|x", "expected one client_ip, as"),
            ("items", "alice", "expected user and route with bars between them"),
            ("items", "alice|/other", "a path that matches one: /api/items, /health, /api/*"),
            ("items", "alice|x", "a path that matches one"),
            ("items", "|/health", "expected a value as"),
            ("items", r"a\b|/health", "a backslash as \\x5c"),
            ("items", "a\n|/health", "a line end as"),
            ("per-caller", "alice", "user=.., client_ip=.."),
            ("per-caller", "client_ip=alice", "cannot be its client_ip"),
            ("other", "x", "its key is empty"),
        ] {
            let error = read(rule, text).unwrap_err();
            assert!(error.contains(expected), "{rule} {text}: {error}");
        }
    }
}
