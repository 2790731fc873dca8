//! An outage with very many new keys.

use super::*;

const KEYS: usize = 200_000;

/// Decisions a second, a fifth of the keys at a time. It is no test: it prints what it finds.
#[tokio::test]
#[ignore = "a measurement"]
async fn decisions_a_second_with_many_new_keys_in_an_outage() {
    let (_, store) = failing_store();
    let limit = limit_of(&store);
    for part in 0..5 {
        let begun = std::time::Instant::now();
        for at in part * KEYS / 5..(part + 1) * KEYS / 5 {
            assert!(decide(&store, &limit, at).await.passed);
        }
        let seconds = begun.elapsed().as_secs_f64();
        println!("keys up to {}: {:.0} decisions a second", (part + 1) * KEYS / 5, KEYS as f64 / 5.0 / seconds);
    }
    println!("{:?}", store.stats());
}

/// A store whose server does not answer, with its breaker open.
fn failing_store() -> (Desk, RedisStore) {
    let desk = Desk::default();
    let settings = StoreSettings { deadline: Duration::ZERO, ..StoreSettings::default() };
    let store = RedisStore::for_test(desk.clone(), settings, Box::new(|_| {}), NOW_US * 1_000, None);
    (desk, store)
}

fn limit_of(store: &RedisStore) -> Limit {
    let quota = Quota::token_bucket("100/h".parse().unwrap()).unwrap();
    let options = LimitOptions { on_failure: OnFailure::Local { share: (1, 4) }, refusals: Refusals::Brief };
    store.limit("many", quota, options).unwrap()
}

async fn decide(store: &RedisStore, limit: &Limit, at: usize) -> Outcome {
    let key = format!("a-client-{at}");
    let charge = Charge::new(limit, key.as_bytes(), 1);
    store.decide(&[charge]).await
}

#[tokio::test(start_paused = true)]
async fn what_more_keys_owe_than_are_kept_is_counted_as_dropped() {
    let desk = Desk::default();
    let settings = StoreSettings { deadline: Duration::ZERO, owing_keys: 10, ..StoreSettings::default() };
    let store = RedisStore::for_test(desk, settings, Box::new(|_| {}), NOW_US * 1_000, None);
    let limit = limit_of(&store);
    for at in 0..25 {
        assert!(decide(&store, &limit, at).await.passed);
    }
    // Who owes already may owe more.
    assert!(decide(&store, &limit, 0).await.passed);
    assert_eq!((store.stats().debts, store.stats().dropped_debts), (10, 15));
}
