//! Readers of single values: texts, numbers, words, durations, networks.

use ipnet::IpNet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::PolicyReader;
use crate::check::codes;
use crate::check::words::{did_you_mean, either, quoted};
use crate::duration::parse_duration;
use crate::model::TextPattern;
use crate::yaml::findings::TextSpan;
use crate::yaml::tree::{YamlNode, YamlScalar, YamlValue};

impl PolicyReader<'_> {
    pub(super) fn wrong_type(&mut self, node: &YamlNode, expected: &str) {
        let message = format!("expected {expected}, found {}", node.described());
        let hint = match node.scalar() {
            Some(scalar) if scalar.is_null() => "write a value, or remove the member",
            Some(scalar) if scalar.as_bool().is_some() => "put it in quotes to use it as text",
            _ => "",
        };
        self.error(codes::WRONG_TYPE, node.span, message, hint);
    }

    /// Reads a text that is not empty. A number is accepted as text; `header: true` is not. A text with a variable
    /// (`${NAME}`) is refused: it would be taken literally.
    pub(super) fn text(&mut self, node: &YamlNode, expected: &str) -> Option<String> {
        let is_text = |scalar: &&YamlScalar| !scalar.is_null() && !scalar.text.is_empty() && scalar.as_bool().is_none();
        let text = node.scalar().filter(is_text).map(|scalar| scalar.text.to_string());
        match &text {
            None => self.wrong_type(node, expected),
            Some(text) if has_variable(text) => {
                let message = format!("expected {expected}, found the variable {}", quoted(text));
                self.error(codes::BAD_TEXT, node.span, message, "");
                return None;
            }
            Some(_) => {}
        }
        text
    }

    /// Reads one text or a list of texts.
    pub(super) fn texts(&mut self, node: &YamlNode, expected: &str) -> Vec<String> {
        self.refuse_empty(node);
        node.items().iter().filter_map(|item| self.text(item, expected)).collect()
    }

    /// Reads one text pattern or a list of them.
    pub(super) fn patterns(&mut self, node: &YamlNode) -> Vec<TextPattern> {
        self.texts(node, "a text, in which `*` matches any characters").into_iter().map(TextPattern).collect()
    }

    /// Reads each member of a map that must not be empty.
    pub(super) fn each_member<T>(
        &mut self,
        node: &YamlNode,
        expected: &str,
        mut read: impl FnMut(&mut Self, &str, &YamlNode) -> Option<T>,
    ) -> Vec<T> {
        if !node.is_map() {
            self.wrong_type(node, expected);
        }
        self.refuse_empty(node);
        node.members().iter().filter_map(|member| read(self, &member.name, &member.value)).collect()
    }

    /// Returns the items of a list. A single value is refused.
    pub(super) fn items<'n>(&mut self, node: &'n YamlNode, expected: &str) -> Option<&'n [YamlNode]> {
        if !matches!(node.value, YamlValue::List(_)) {
            self.wrong_type(node, expected);
            return None;
        }
        Some(node.items())
    }

    pub(super) fn refuse_empty(&mut self, node: &YamlNode) {
        let is_empty = match &node.value {
            YamlValue::List(items) => items.is_empty(),
            YamlValue::Map(map) => map.members.is_empty() && map.is_whole,
            YamlValue::Scalar(_) => false,
        };
        if is_empty {
            let hint = "add an item, or remove the member";
            self.error(codes::EMPTY_LIST, node.span, "expected at least one item, found none", hint);
        }
    }

    pub(super) fn bool(&mut self, node: &YamlNode) -> Option<bool> {
        let scalar = node.scalar();
        let value = scalar.and_then(|scalar| scalar.as_bool());
        if value.is_none() {
            let message = format!("expected true or false, found {}", node.described());
            let hint = match scalar.map(|scalar| scalar.text.to_ascii_lowercase()).as_deref() {
                Some("yes" | "on" | "1" | "true") => "write true, without quotes",
                Some("no" | "off" | "0" | "false") => "write false, without quotes",
                Some("") => "write true or false, or remove the member",
                _ => "",
            };
            self.error(codes::WRONG_TYPE, node.span, message, hint);
        }
        value
    }

    /// Reads a member that can only be `true`.
    pub(super) fn only_true(&mut self, node: &YamlNode) {
        if self.bool(node) == Some(false) {
            let message = "expected true, found `false`";
            self.error(codes::WRONG_TYPE, node.span, message, "remove the member instead");
        }
    }

    pub(super) fn number(&mut self, node: &YamlNode, range: RangeInclusive<u64>) -> Option<u64> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let text = node.scalar().filter(|scalar| !scalar.quoted).map(|scalar| &*scalar.text);
        let Some(digits) = text.filter(|text| is_number(text)).map(|text| text.replace('_', "")) else {
            let hint = number_hint(node);
            let message = format!("expected {expected}, found {}", node.described());
            if hint.is_empty() {
                self.wrong_type(node, &expected);
            } else {
                self.error(codes::WRONG_TYPE, node.span, message, hint);
            }
            return None;
        };
        // A number that does not fit is out of range too.
        let value = digits.parse().unwrap_or(u64::MAX);
        if range.contains(&value) {
            return Some(value);
        }
        let message = format!("expected {expected}, found {}", quoted(&digits));
        self.error(codes::OUT_OF_RANGE, node.span, message, "");
        None
    }

    /// Reads one of a table of words.
    pub(super) fn word<T: Copy>(&mut self, node: &YamlNode, words: &[(&'static str, T)]) -> Option<T> {
        let names = || words.iter().map(|(word, _)| *word);
        let text = self.text(node, &either(names()))?;
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(&text));
        if found.is_none() {
            let message = format!("expected {}, found {}", either(names()), node.described());
            let synonym = SYNONYMS
                .into_iter()
                .find(|(other, word)| other.eq_ignore_ascii_case(&text) && names().any(|known| known == *word));
            let hint = synonym.map_or_else(|| did_you_mean(&text, names()), |(_, word)| format!("write `{word}`"));
            self.error(codes::UNKNOWN_WORD, node.span, message, hint);
        }
        found.map(|(_, meaning)| *meaning)
    }

    /// Reads a duration, in nanoseconds.
    pub(super) fn duration(&mut self, node: &YamlNode) -> Option<u64> {
        let text = self.text(node, "a duration such as 500ms, 2s or 10min")?;
        self.duration_in(&text, 0, node)
    }

    /// Reads a duration that is a part of a scalar and begins at character `at` of it.
    pub(super) fn duration_in(&mut self, text: &str, at: usize, node: &YamlNode) -> Option<u64> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let hint = if text.contains(['.', ',']) {
            "write a fraction with a smaller unit: 1500ms, not 1.5s".to_owned()
        } else if is_number {
            format!("add a unit: {text}ms, {text}s or {text}min")
        } else {
            String::new()
        };
        let wrong = |(column, message)| self.error(codes::BAD_DURATION, node.span_from(at + column), message, hint);
        parse_duration(text).map_err(wrong).ok()
    }

    /// Reads one address or network, or a list of them.
    pub(super) fn networks(&mut self, node: &YamlNode) -> Vec<IpNet> {
        self.refuse_empty(node);
        node.items().iter().filter_map(|item| self.network(item)).collect()
    }

    fn network(&mut self, node: &YamlNode) -> Option<IpNet> {
        let text = self.text(node, "an IP address or a network such as 10.0.0.0/8")?;
        let message = || format!("expected an IP address or a network, found {}", quoted(&text));
        parse_network(&text).map_err(|hint| self.error(codes::BAD_NETWORK, node.span, message(), hint)).ok()
    }

    pub(super) fn misplaced(&mut self, span: TextSpan, message: &str, hint: &str) {
        self.error(codes::MISPLACED_MEMBER, span, message, hint);
    }
}

/// Replaces a default by the value that was read, if any.
pub(super) fn set<T>(target: &mut T, read: Option<T>) {
    if let Some(read) = read {
        *target = read;
    }
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

fn network_hint(text: &str) -> String {
    let address = text.split('/').next().unwrap_or_default();
    let prefix = address.parse::<IpAddr>().ok().map(|address| if address.is_ipv4() { 32 } else { 128 });
    match prefix {
        Some(longest) => format!("the number after `/` must be from 0 to {longest}"),
        None if text.eq_ignore_ascii_case("localhost") => "write 127.0.0.1, and \"::1\" for IPv6".to_owned(),
        None if text.eq_ignore_ascii_case("all") || text.eq_ignore_ascii_case("any") || text == "*" => {
            "list the networks; 0.0.0.0/0 and \"::/0\" are all addresses".to_owned()
        }
        None if text.contains('*') => "write a wildcard as a network: 10.* is 10.0.0.0/8".to_owned(),
        None if text.contains('-') && text.contains('.') => {
            "write a range as networks: 10.0.0.0-10.0.0.255 is 10.0.0.0/24".to_owned()
        }
        None => "write an address such as 203.0.113.9, or a network such as 10.0.0.0/8 or 2001:db8::/32".to_owned(),
    }
}

/// Words of other rate limiters, with the words of a policy.
const SYNONYMS: [(&str, &str); 12] = [
    ("gcra", "token-bucket"),
    ("allow", "open"),
    ("fail-open", "open"),
    ("deny", "closed"),
    ("reject", "closed"),
    ("block", "closed"),
    ("fail-closed", "closed"),
    ("reject", "refuse"),
    ("deny", "refuse"),
    ("ignore", "absent"),
    ("seconds", "delta"),
    ("timestamp", "epoch"),
];

fn has_variable(text: &str) -> bool {
    text.split_once("${").is_some_and(|(_, rest)| rest.contains('}'))
}

fn number_hint(node: &YamlNode) -> String {
    let Some(scalar) = node.scalar() else { return String::new() };
    let digits = scalar.text.replace(',', "");
    match () {
        () if scalar.quoted && is_number(&scalar.text) => format!("write {} without quotes", scalar.text),
        () if scalar.text.contains(',') && is_number(&digits) => format!("write {digits} without separators"),
        () if scalar.text.contains('.') && is_number(&scalar.text.replace('.', "")) => {
            "fractions are not supported".to_owned()
        }
        () => String::new(),
    }
}

fn parse_network(text: &str) -> Result<IpNet, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    let Ok(network) = text.parse::<IpNet>() else { return Err(network_hint(text)) };
    if network.trunc() != network {
        return Err(format!("write {} for the network, or {} for the address", network.trunc(), network.addr()));
    }
    Ok(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_with_bits_beyond_its_prefix_is_refused() {
        assert!(parse_network("10.0.0.0/8").is_ok());
        assert!(parse_network("2001:db8::1").is_ok());
        assert_eq!(
            parse_network("10.1.2.3/8"),
            Err("write 10.0.0.0/8 for the network, or 10.1.2.3 for the address".to_owned())
        );
        assert!(parse_network("10.0.0/8").is_err());
    }
}
