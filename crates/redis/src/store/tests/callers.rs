//! An outage in which callers bring very many keys and limits of their own.

use super::*;

const ALONE: LimitOptions = LimitOptions { on_failure: OnFailure::Local { share: (1, 1) }, refusals: Refusals::Brief };

/// A store whose server does not answer.
fn failing_store(owing_keys: usize) -> RedisStore {
    let fallback = MemoryOptions { capacity: Capacity::Entries(64), when_full: WhenFull::default() };
    let settings = StoreSettings { deadline: Duration::ZERO, owing_keys, fallback, ..StoreSettings::default() };
    RedisStore::for_test(Desk::default(), settings, Box::new(|_| {}), NOW_US * 1_000, None)
}

fn bucket(rate: &str) -> Quota {
    Quota::token_bucket(rate.parse().unwrap()).unwrap().with_max_debt(0).unwrap()
}

async fn passes(store: &RedisStore, limit: &Limit, key: &str) -> bool {
    let charge = Charge::new(limit, key.as_bytes(), 1);
    store.decide(&[charge]).await.passed
}

#[tokio::test(start_paused = true)]
async fn keys_and_limits_of_callers_free_no_client_that_this_instance_limits_alone() {
    let store = failing_store(100);
    let rule = store.limit("login", bucket("1/day"), ALONE).unwrap();
    assert!(passes(&store, &rule, "victim").await);
    assert!(!passes(&store, &rule, "victim").await);
    for count in 1..=5_000 {
        let limit = store.caller_limit("*throttle", bucket(&format!("{count} per 365d burst 9")), ALONE).unwrap();
        assert!(passes(&store, &limit, &format!("k{count}")).await);
    }
    assert!(!passes(&store, &rule, "victim").await);
    store.limit("another", bucket("2/day"), ALONE).unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_keys_of_callers_owe_leaves_half_of_the_room_to_the_policy() {
    let store = failing_store(10);
    let limit = store.caller_limit("*throttle", bucket("9/day"), ALONE).unwrap();
    for key in 0..25 {
        assert!(passes(&store, &limit, &format!("k{key}")).await);
    }
    let dropped = store.stats().dropped_debts;
    assert!(dropped > 0, "{:?}", store.stats());
    let rule = store.limit("login", bucket("9/day"), ALONE).unwrap();
    for key in 0..4 {
        assert!(passes(&store, &rule, &format!("k{key}")).await);
    }
    assert_eq!(store.stats().dropped_debts, dropped, "what the policy let pass will be counted");
}
