//! Credits without a receipt, and resets by an operator.

use tollgate_store::ChangeError;

use super::*;
use crate::overrides::ResetKey;
use crate::store::limit::RedisLimitData;

/// Makes one check, and lets the server reply.
async fn check_once(fixture: &Fixture, limit: &Limit) -> Outcome {
    let check = fixture.check(&[(limit, "bob", 1)]).await;
    if fixture.transport.waiting() > 0 {
        fixture.transport.reply().await;
    }
    check.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn credit_is_one_call_and_ends_a_cached_refusal() {
    let fixture = fixture();
    let limit = fixture.limit("a", "1/min", OnFailure::Closed);
    assert!(check_once(&fixture, &limit).await.passed);
    assert_eq!(check_once(&fixture, &limit).await.source, Source::Exact);
    assert_eq!(check_once(&fixture, &limit).await.source, Source::Cached);
    fixture.store.credit(&limit, b"bob", 1);
    assert!(matches!(&fixture.transport.reply().await.ops[..], [ScriptOp::Credit { cost: 1, .. }]));
    assert!(check_once(&fixture, &limit).await.passed);
    fixture.store.credit(&limit, b"bob", 0);
    let permits = fixture.store.limit("jobs", Quota::concurrency(2, None).unwrap(), LimitOptions::default()).unwrap();
    fixture.store.credit(&permits, b"bob", 1);
    assert_eq!(fixture.transport.waiting(), 0, "a credit of 0 or of permits sends nothing");
}

#[tokio::test(start_paused = true)]
async fn credit_with_an_unknown_outcome_is_not_resent() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Open);
    fixture.store.credit(&limit, b"bob", 2);
    fixture.transport.fail(Executed::No).await;
    sleep(Duration::from_millis(51)).await;
    assert_eq!(fixture.transport.waiting(), 1, "it was not executed");
    fixture.transport.fail(Executed::Unknown).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fixture.transport.waiting(), 0);
    assert_eq!(fixture.store.stats().lost_refunds, 1);
}

#[tokio::test(start_paused = true)]
async fn credit_reduces_the_debt_first() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Local { share: (1, 1) });
    let check = fixture.check(&[(&limit, "bob", 2)]).await;
    fixture.transport.fail(Executed::No).await;
    assert_eq!(check.await.unwrap().source, Source::Fallback);
    fixture.store.credit(&limit, b"bob", 3);
    assert!(matches!(&fixture.transport.reply().await.ops[..], [ScriptOp::Credit { cost: 1, .. }]));
    let check = fixture.check(&[(&limit, "bob", 1)]).await;
    assert!(matches!(&fixture.transport.reply().await.ops[..], [ScriptOp::Decide { .. }]), "there is no debt any more");
    assert_eq!(check.await.unwrap().decisions[0].remaining, 8);
}

#[tokio::test(start_paused = true)]
async fn reset_by_another_instance_drops_the_local_state_of_the_key() {
    let fixture = fixture();
    let limit = fixture.limit("a", "1/min", OnFailure::Local { share: (1, 1) });
    let check = fixture.check(&[(&limit, "bob", 1)]).await;
    fixture.transport.fail(Executed::No).await;
    assert_eq!(check.await.unwrap().source, Source::Fallback);
    let reset = ResetKey {
        prefix_and_scope: RedisLimitData::of(&limit).prefix_and_scope.clone(),
        key: b"bob".as_slice().into(),
    };
    fixture.store.inner.drop_local_state(&reset);
    // There is neither a debt nor a fallback count.
    let check = fixture.check(&[(&limit, "bob", 1)]).await;
    fixture.transport.fail(Executed::No).await;
    assert!(check.await.unwrap().passed);
    fixture.store.inner.drop_local_state(&reset);
    // A call sent at the same instant may have been refused before the reset.
    sleep(Duration::from_millis(1)).await;
    let check = fixture.check(&[(&limit, "bob", 1)]).await;
    assert!(matches!(&fixture.transport.reply().await.ops[..], [ScriptOp::Decide { .. }]));
    assert!(check.await.unwrap().passed);
    assert_eq!(check_once(&fixture, &limit).await.source, Source::Exact);
    assert_eq!(check_once(&fixture, &limit).await.source, Source::Cached);
    fixture.store.inner.drop_local_state(&reset);
    assert_eq!(check_once(&fixture, &limit).await.source, Source::Exact, "the cached refusal is dropped too");
}

#[tokio::test(start_paused = true)]
async fn reset_is_one_call_for_each_slot_and_fails_without_a_reply() {
    let fixture = fixture();
    let (one, same) = (fixture.limit("a", "1/min", OnFailure::Open), fixture.limit("a", "2/min", OnFailure::Open));
    let block = fixture.limit("a/block", "1/min", OnFailure::Open);
    let reset = || {
        let (store, limits) = (Arc::clone(&fixture.store), [one.clone(), same.clone(), block.clone()]);
        tokio::spawn(async move {
            let keys: Vec<(&Limit, &[u8])> = limits.iter().map(|limit| (limit, b"bob".as_slice())).collect();
            store.inner.reset_keys(&keys).await.map(|keys| keys.len())
        })
    };
    let resetting = reset();
    yield_now().await;
    let call = fixture.transport.reply().await;
    assert!(matches!(&call.ops[..], [ScriptOp::Reset { .. }, ScriptOp::Reset { .. }]), "{call:?}");
    assert_eq!(resetting.await.unwrap(), Ok(2));
    let resetting = reset();
    yield_now().await;
    fixture.transport.fail(Executed::Unknown).await;
    assert_eq!(resetting.await.unwrap(), Err(ChangeError::Timeout));
    let resetting = reset();
    yield_now().await;
    assert_eq!(resetting.await.unwrap(), Err(ChangeError::Timeout), "the wait is bounded");
}
