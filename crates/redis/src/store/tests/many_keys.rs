//! An outage with very many new keys.

use super::*;

const KEYS: usize = 200_000;

/// Measures decisions per second, a fifth of the keys at a time, and prints them.
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

/// Creates a store whose server does not reply.
fn failing_store() -> (ManualTransport, RedisStore) {
    let transport = ManualTransport::default();
    let settings = RedisStoreSettings { deadline: Duration::ZERO, ..RedisStoreSettings::default() };
    let store = RedisStore::for_test(transport.clone(), settings, Box::new(|_| {}), NOW_US * 1_000, None);
    (transport, store)
}

fn limit_of(store: &RedisStore) -> Limit {
    let quota = Quota::token_bucket("100/h".parse().unwrap()).unwrap();
    let options = LimitOptions {
        on_failure: OnFailure::Local { share: (1, 4) },
        refusals: Refusals::Brief,
        lease: None,
        regional: false,
    };
    store.limit("many", quota, options).unwrap()
}

async fn decide(store: &RedisStore, limit: &Limit, at: usize) -> Outcome {
    let key = format!("a-client-{at}");
    let charge = Charge::new(limit, key.as_bytes(), 1);
    store.check_all(&[charge]).await
}

#[tokio::test(start_paused = true)]
async fn debts_beyond_the_bound_are_counted_as_dropped() {
    let transport = ManualTransport::default();
    let settings =
        RedisStoreSettings { deadline: Duration::ZERO, debt_table_capacity: 10, ..RedisStoreSettings::default() };
    let store = RedisStore::for_test(transport, settings, Box::new(|_| {}), NOW_US * 1_000, None);
    let limit = limit_of(&store);
    for at in 0..25 {
        assert!(decide(&store, &limit, at).await.passed);
    }
    // A key that has a debt already may get more.
    assert!(decide(&store, &limit, 0).await.passed);
    assert_eq!((store.stats().debts, store.stats().dropped_debts), (10, 15));
}
