//! Random configurations and descriptors, compared with a model.

use std::collections::HashMap;

use proptest::prelude::*;

use crate::importing::Imported;
use crate::tree::{Tree, UNLIMITED, configuration, limit_of};

/// Two keys for each depth, so that entries have one order.
const KEYS: [[&str; 2]; 3] = [["a", "path"], ["b", "x-c"], ["d", "remote_address"]];
const VALUES: [&str; 6] = ["", "1", "12", "1*", "*", "2"];
const SENT: [&str; 5] = ["1", "12", "123", "2", "3"];

fn any_trees(depth: usize) -> BoxedStrategy<Vec<Tree>> {
    let below = if depth + 1 < KEYS.len() { any_trees(depth + 1) } else { Just(Vec::new()).boxed() };
    let limit = prop_oneof![Just(UNLIMITED), 0..4_u32];
    let tree = (0..2_usize, 0..VALUES.len(), prop::option::of(limit), below)
        .prop_map(move |(key, value, limit, below)| Tree { key: KEYS[depth][key], value: VALUES[value], limit, below });
    let is_new =
        |known: &[Tree], tree: &Tree| known.iter().all(|other| (other.key, other.value) != (tree.key, tree.value));
    prop::collection::vec(tree, 0..5)
        .prop_map(move |trees| {
            let mut unique: Vec<Tree> = Vec::new();
            for tree in trees {
                if is_new(&unique, &tree) {
                    unique.push(tree);
                }
            }
            unique
        })
        .boxed()
}

fn any_entries() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    prop::collection::vec((0..2_usize, 0..SENT.len()), 1..=KEYS.len()).prop_map(|chosen| {
        chosen.iter().enumerate().map(|(depth, (key, value))| (KEYS[depth][*key], SENT[*value])).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn imported_policy_decides_as_the_model(
        trees in any_trees(0),
        calls in prop::collection::vec(any_entries(), 1..150),
    ) {
        let configuration = configuration(&trees);
        let imported = Imported::from(&configuration);
        let mut counters: HashMap<Vec<(&str, &str)>, u32> = HashMap::new();
        for entries in &calls {
            let limit = limit_of(&trees, entries);
            let used = counters.entry(entries.clone()).or_default();
            *used += 1;
            let passes = limit.is_none_or(|limit| *used <= limit);
            let answer = imported.call("d", &[entries]);
            let found = (answer.each[0].is_allowed(), answer.each[0].is_unlimited(), answer.each[0].states().len());
            let is_counted = limit.is_some_and(|limit| limit > 0 && limit < UNLIMITED);
            let expected = (passes, limit == Some(UNLIMITED), usize::from(is_counted));
            prop_assert_eq!(answer.each[0].denied_by().is_some(), limit == Some(0));
            prop_assert_eq!(found, expected, "{:?} in\n{}", entries, &configuration);
        }
    }
}
