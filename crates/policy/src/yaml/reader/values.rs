//! Values that mean the same wherever they stand.

use ipnet::IpNet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::Reader;
use crate::check::codes;
use crate::check::words::{did_you_mean, either, quoted};
use crate::duration::parse_duration;
use crate::model::TextPattern;
use crate::yaml::findings::Span;
use crate::yaml::tree::{Node, Scalar, Value};

impl Reader<'_> {
    pub(super) fn wrong_type(&mut self, node: &Node, expected: &str) {
        let message = format!("expected {expected}, found {}", node.described());
        let hint = match node.scalar() {
            Some(scalar) if scalar.is_null() => "leave the member out if there is nothing to say",
            Some(scalar) if scalar.as_bool().is_some() => "put it in quotes if it is meant as a text",
            _ => "",
        };
        self.error(codes::WRONG_TYPE, node.span, message, hint);
    }

    /// A text that is not empty. A number is a text where one is expected, but
    /// `header: true` says something else than what is meant.
    pub(super) fn text(&mut self, node: &Node, expected: &str) -> Option<String> {
        let is_text = |scalar: &&Scalar| !scalar.is_null() && !scalar.text.is_empty() && scalar.as_bool().is_none();
        let text = node.scalar().filter(is_text).map(|scalar| scalar.text.to_string());
        if text.is_none() {
            self.wrong_type(node, expected);
        }
        text
    }

    /// One text or a list of them.
    pub(super) fn texts(&mut self, node: &Node, expected: &str) -> Vec<String> {
        self.refuse_empty(node);
        node.items().iter().filter_map(|item| self.text(item, expected)).collect()
    }

    /// One text with stars, or a list of them.
    pub(super) fn patterns(&mut self, node: &Node) -> Vec<TextPattern> {
        self.texts(node, "a text, in which `*` stands for anything").into_iter().map(TextPattern).collect()
    }

    /// What is read of each member of a map that has any.
    pub(super) fn each_member<T>(
        &mut self,
        node: &Node,
        expected: &str,
        mut read: impl FnMut(&mut Self, &str, &Node) -> Option<T>,
    ) -> Vec<T> {
        if !node.is_map() {
            self.wrong_type(node, expected);
        }
        self.refuse_empty(node);
        node.members().iter().filter_map(|member| read(self, &member.name, &member.value)).collect()
    }

    /// The items of a list, which one value alone is not.
    pub(super) fn items<'n>(&mut self, node: &'n Node, expected: &str) -> Option<&'n [Node]> {
        if !matches!(node.value, Value::List(_)) {
            self.wrong_type(node, expected);
            return None;
        }
        Some(node.items())
    }

    pub(super) fn refuse_empty(&mut self, node: &Node) {
        let is_empty = match &node.value {
            Value::List(items) => items.is_empty(),
            Value::Map(map) => map.members.is_empty() && map.is_whole,
            Value::Scalar(_) => false,
        };
        if is_empty {
            let hint = "add one, or leave the member out";
            self.error(codes::EMPTY_LIST, node.span, "expected at least one, found none", hint);
        }
    }

    pub(super) fn bool(&mut self, node: &Node) -> Option<bool> {
        let scalar = node.scalar();
        let value = scalar.and_then(|scalar| scalar.as_bool());
        if value.is_none() {
            let message = format!("expected true or false, found {}", node.described());
            let hint = match scalar.map(|scalar| scalar.text.to_ascii_lowercase()).as_deref() {
                Some("yes" | "on" | "1" | "true") => "write true, without quotes",
                Some("no" | "off" | "0" | "false") => "write false, without quotes",
                Some("") => "leave the member out if there is nothing to say",
                _ => "",
            };
            self.error(codes::WRONG_TYPE, node.span, message, hint);
        }
        value
    }

    /// A member that is `true` or not there.
    pub(super) fn only_true(&mut self, node: &Node) {
        if self.bool(node) == Some(false) {
            let message = "expected true, found `false`";
            self.error(codes::WRONG_TYPE, node.span, message, "leave the member out instead");
        }
    }

    pub(super) fn number(&mut self, node: &Node, range: RangeInclusive<u64>) -> Option<u64> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let text = node.scalar().filter(|scalar| !scalar.quoted).map(|scalar| &*scalar.text);
        let Some(digits) = text.filter(|text| is_number(text)).map(|text| text.replace('_', "")) else {
            self.wrong_type(node, &expected);
            return None;
        };
        // What does not fit is out of range all the same.
        let value = digits.parse().unwrap_or(u64::MAX);
        if range.contains(&value) {
            return Some(value);
        }
        let message = format!("expected {expected}, found {}", quoted(&digits));
        self.error(codes::OUT_OF_RANGE, node.span, message, "");
        None
    }

    /// One of some words, each with what it means.
    pub(super) fn word<T: Copy>(&mut self, node: &Node, words: &[(&'static str, T)]) -> Option<T> {
        let names = || words.iter().map(|(word, _)| *word);
        let text = self.text(node, &either(names()))?;
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(&text));
        if found.is_none() {
            let message = format!("expected {}, found {}", either(names()), node.described());
            self.error(codes::UNKNOWN_WORD, node.span, message, did_you_mean(&text, names()));
        }
        found.map(|(_, meaning)| *meaning)
    }

    /// A length of time in nanoseconds.
    pub(super) fn duration(&mut self, node: &Node) -> Option<u64> {
        let text = self.text(node, "a duration such as 500ms, 2s or 10min")?;
        self.duration_in(&text, 0, node)
    }

    /// The same, for a part of a scalar that begins at a character of it.
    pub(super) fn duration_in(&mut self, text: &str, at: usize, node: &Node) -> Option<u64> {
        let hint = if text.contains(['.', ',']) { "for a fraction take a smaller unit: 1500ms, not 1.5s" } else { "" };
        let wrong = |(column, message)| self.error(codes::BAD_DURATION, node.span_from(at + column), message, hint);
        parse_duration(text).map_err(wrong).ok()
    }

    /// Addresses and networks: one or a list of them.
    pub(super) fn networks(&mut self, node: &Node) -> Vec<IpNet> {
        self.refuse_empty(node);
        node.items().iter().filter_map(|item| self.network(item)).collect()
    }

    fn network(&mut self, node: &Node) -> Option<IpNet> {
        let text = self.text(node, "an address or a network such as 10.0.0.0/8")?;
        let message = || format!("{} is neither an address nor a network", quoted(&text));
        parse_network(&text).map_err(|hint| self.error(codes::BAD_NETWORK, node.span, message(), hint)).ok()
    }

    pub(super) fn misplaced(&mut self, span: Span, message: &str, hint: &str) {
        self.error(codes::MISPLACED_MEMBER, span, message, hint);
    }
}

/// Puts what was read in the place of a default.
pub(super) fn set<T>(place: &mut T, read: Option<T>) {
    if let Some(read) = read {
        *place = read;
    }
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

fn parse_network(text: &str) -> Result<IpNet, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    let Ok(network) = text.parse::<IpNet>() else {
        return Err("write an address such as 203.0.113.9, or a network such as 10.0.0.0/8 or 2001:db8::/32".to_owned());
    };
    if network.trunc() != network {
        return Err(format!("write {} for the network, or {} for the address", network.trunc(), network.addr()));
    }
    Ok(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_no_bits_beyond_its_prefix() {
        assert!(parse_network("10.0.0.0/8").is_ok());
        assert!(parse_network("2001:db8::1").is_ok());
        assert_eq!(
            parse_network("10.1.2.3/8"),
            Err("write 10.0.0.0/8 for the network, or 10.1.2.3 for the address".to_owned())
        );
        assert!(parse_network("10.0.0/8").is_err());
    }
}
