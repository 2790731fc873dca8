use sfv::{BareItem, Item, List, ListEntry, Parser};

use super::Reply;

/// Returns the items of a list field, parsed by a third-party parser; none if the field is absent.
pub(crate) fn items(reply: &Reply, name: &str) -> Vec<Item> {
    let Some(value) = reply.field(name) else { return Vec::new() };
    let list: List = Parser::new(value).parse().unwrap_or_else(|error| panic!("{name}: {value}: {error}"));
    assert!(!list.is_empty(), "{name} is empty");
    list.into_iter().map(only_item).collect()
}

fn only_item(entry: ListEntry) -> Item {
    match entry {
        ListEntry::Item(item) => item,
        ListEntry::InnerList(list) => panic!("a list within a list: {list:?}"),
    }
}

/// The item of a list field that has this name, as its parameters: numbers, and texts as -1.
pub(crate) fn item(reply: &Reply, field: &str, name: &str) -> Vec<(String, i64)> {
    let items = items(reply, field);
    let found: Vec<&Item> = items.iter().filter(|item| named(item) == name).collect();
    assert_eq!(found.len(), 1, "{name} in {field}: {:?}", reply.headers);
    let number = |value: &BareItem| value.as_integer().map_or(-1, i64::from);
    found[0].params.iter().map(|(key, value)| (key.to_string(), number(value))).collect()
}

fn named(item: &Item) -> &str {
    item.bare_item.as_string().map_or_else(|| panic!("not a string: {item:?}"), |name| name.as_str())
}

fn integer(item: &Item, key: &str) -> Option<i64> {
    item.params.get(key).map(|value| i64::from(value.as_integer().unwrap()))
}

/// What holds for the fields of every response, allowed or refused.
pub(crate) fn check_fields(reply: &Reply) {
    let policies = items(reply, "ratelimit-policy");
    let states = items(reply, "ratelimit");
    assert_eq!(policies.len(), states.len());
    for (policy, state) in policies.iter().zip(&states) {
        assert_eq!(named(policy), named(state));
        assert!(integer(policy, "w").is_none_or(|window| window > 0));
        let (most, remaining) = (integer(policy, "q").unwrap(), integer(state, "r").unwrap());
        assert!((0..=most).contains(&remaining), "{:?}", reply.headers);
        assert!(integer(state, "t").is_none_or(|next| next > 0));
    }
    for name in ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"] {
        // Once, and a number.
        let _ = reply.number(name);
    }
    let is_refused = matches!(reply.status, 429 | 503);
    assert!(is_refused || reply.field("retry-after").is_none(), "{reply:?}");
    assert!(reply.number("retry-after").is_none_or(|seconds| seconds >= 1), "{reply:?}");
}
