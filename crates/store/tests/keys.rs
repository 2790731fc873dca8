//! Different keys are counted separately, however they are composed.

#![allow(clippy::unwrap_used)]

mod quotas;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use quotas::cases;
use tollgate_store::{Capacity, Key, KeyHasher, Limit, ManualClock, MemoryOptions, MemoryStore, Quota, WhenFull};

/// Small, because every case has its own store.
const SMALL: MemoryOptions = MemoryOptions { capacity: Capacity::Entries(1_000), when_full: WhenFull::RefuseNew };

/// A part of a key, as callers pass it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Number(u64),
}

impl Key for Part {
    fn feed(&self, hasher: &mut KeyHasher<'_>) {
        match self {
            Part::Text(text) => text.feed(hasher),
            Part::Number(number) => number.feed(hasher),
        }
    }
}

fn setting(quota: Quota) -> (MemoryStore, Limit) {
    let store = MemoryStore::with(SMALL, ManualClock::at(1 << 60)).unwrap();
    let limit = store.limit("all", quota).unwrap();
    (store, limit)
}

fn bucket() -> Quota {
    Quota::token_bucket("5/h".parse().unwrap()).unwrap()
}

fn window() -> Quota {
    Quota::fixed_window("5/h".parse().unwrap()).unwrap()
}

/// Few letters, so that different lists often join to the same text.
fn any_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        5 => "[ab_\\x00]{0,4}".prop_map(Part::Text),
        1 => "[a-z]{0,40}".prop_map(Part::Text),
        3 => prop_oneof![0_u64..8, Just(u64::MAX)].prop_map(Part::Number),
    ]
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn different_lists_of_parts_are_different_keys(parts in vec(any_part(), 1..5), others in vec(any_part(), 1..5)) {
        for quota in [bucket(), window()] {
            let (store, limit) = setting(quota);
            store.check(&limit, parts.as_slice(), 5);
            let left = if parts == others { 0 } else { 5 };
            prop_assert_eq!(store.peek(&limit, others.as_slice()).remaining, left);
        }
    }

    #[test]
    fn parts_split_elsewhere_are_another_key(text in "[a-c]{1,12}", first in any::<prop::sample::Index>(), second in any::<prop::sample::Index>()) {
        let [one, other] = [first, second].map(|cut| text.split_at(cut.index(text.len() + 1)));
        let (store, limit) = setting(bucket());
        store.check(&limit, &one, 5);
        prop_assert_eq!(store.peek(&limit, &other).remaining, if one == other { 0 } else { 5 });
        // The joined text of the parts, as one part or with a third, is another key.
        prop_assert_eq!(store.peek(&limit, text.as_str()).remaining, 5);
        prop_assert_eq!(store.peek(&limit, &(one.0, one.1, "")).remaining, 5);
    }
}

#[test]
fn numbers_texts_and_addresses_are_different_keys() {
    let (store, limit) = setting(bucket());
    let (v4, v6) = (Ipv4Addr::new(97, 98, 99, 100), Ipv6Addr::LOCALHOST);
    store.check(&limit, &v4, 5);
    store.check(&limit, &7_u64, 5);
    assert_eq!(store.peek(&limit, &IpAddr::V4(v4)).remaining, 0, "the same address in another form");
    assert_eq!(store.peek(&limit, &IpAddr::V6(v6)).remaining, 5);
    assert_eq!(store.peek(&limit, "7").remaining, 5);
    assert_eq!(store.peek(&limit, &()).remaining, 5);
    assert_eq!(store.peek(&limit, "").remaining, 5);
}

#[test]
fn the_same_key_in_different_forms_is_one_key() {
    let (store, limit) = setting(bucket());
    store.check(&limit, &("ann", "search"), 5);
    assert_eq!(store.peek(&limit, ["ann", "search"].as_slice()).remaining, 0);
    assert_eq!(store.peek(&limit, &("ann".to_owned(), "search".to_owned())).remaining, 0);
    assert_eq!(store.peek(&limit, &(&"ann", b"search".as_slice())).remaining, 0);
    assert_eq!(store.peek(&limit, &("search", "ann")).remaining, 5);
}

#[test]
fn scopes_count_separately_and_limits_of_one_scope_together() {
    let (store, login) = setting(bucket());
    let api = store.limit("api", bucket()).unwrap();
    let again = store.limit("all", bucket()).unwrap();
    store.check(&login, "ann", 3);
    assert_eq!(store.peek(&api, "ann").remaining, 5);
    assert_eq!(store.peek(&again, "ann").remaining, 2);
}
