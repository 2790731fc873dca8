//! An outage with very many keys and limits chosen by callers.

use super::*;

const ALONE: LimitOptions = LimitOptions {
    on_failure: OnFailure::Local { share: (1, 1) },
    refusals: Refusals::Brief,
    lease: None,
    regional: false,
};

/// Creates a store whose server does not reply.
fn failing_store(debt_table_capacity: usize) -> RedisStore {
    let fallback = MemoryOptions { capacity: Capacity::Entries(64), when_full: WhenFull::default() };
    let settings =
        RedisStoreSettings { deadline: Duration::ZERO, debt_table_capacity, fallback, ..RedisStoreSettings::default() };
    RedisStore::for_test(ManualTransport::default(), settings, Box::new(|_| {}), NOW_US * 1_000, None)
}

fn bucket(rate: &str) -> Quota {
    Quota::token_bucket(rate.parse().unwrap()).unwrap().with_max_debt(0).unwrap()
}

async fn passes(store: &RedisStore, limit: &Limit, key: &str) -> bool {
    let charge = Charge::new(limit, key.as_bytes(), 1);
    store.check_all(&[charge]).await.passed
}

#[tokio::test(start_paused = true)]
async fn keys_and_limits_of_callers_do_not_evict_fallback_counts_of_the_policy() {
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
async fn debts_of_callers_leave_half_of_the_table_to_the_policy() {
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
    assert_eq!(store.stats().dropped_debts, dropped, "the debts of the policy are kept");
}
