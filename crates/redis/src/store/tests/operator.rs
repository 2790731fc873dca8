//! What is given back without a receipt, and what an operator makes as if untouched.

use tollgate_store::ChangeError;

use super::*;
use crate::overrides::ResetKey;
use crate::store::limit::SharedLimit;

/// Asks once, and has the server answer.
async fn asked(fixture: &Fixture, limit: &Limit) -> Outcome {
    let asking = fixture.ask(&[(limit, "bob", 1)]).await;
    if fixture.desk.waiting() > 0 {
        fixture.desk.answer().await;
    }
    asking.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_credit_is_one_call_and_turns_a_known_refusal_around() {
    let fixture = fixture();
    let limit = fixture.limit("a", "1/min", OnFailure::Closed);
    assert!(asked(&fixture, &limit).await.passed);
    assert_eq!(asked(&fixture, &limit).await.source, Source::Exact);
    assert_eq!(asked(&fixture, &limit).await.source, Source::Cached);
    fixture.store.credit(&limit, b"bob", 1);
    assert!(matches!(&fixture.desk.answer().await.lines[..], [Line::Credit { cost: 1, .. }]));
    assert!(asked(&fixture, &limit).await.passed);
    fixture.store.credit(&limit, b"bob", 0);
    let permits = fixture.store.limit("jobs", Quota::concurrency(2, None).unwrap(), LimitOptions::default()).unwrap();
    fixture.store.credit(&permits, b"bob", 1);
    assert_eq!(fixture.desk.waiting(), 0, "nothing to give back, and permits have holders");
}

#[tokio::test(start_paused = true)]
async fn a_credit_whose_outcome_is_unknown_is_not_repeated() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Open);
    fixture.store.credit(&limit, b"bob", 2);
    fixture.desk.fail(Executed::No).await;
    sleep(Duration::from_millis(51)).await;
    assert_eq!(fixture.desk.waiting(), 1, "it did not arrive");
    fixture.desk.fail(Executed::Unknown).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fixture.desk.waiting(), 0);
    assert_eq!(fixture.store.stats().lost_refunds, 1);
}

#[tokio::test(start_paused = true)]
async fn what_passed_uncounted_is_given_back_before_anything_else() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Local { share: (1, 1) });
    let asking = fixture.ask(&[(&limit, "bob", 2)]).await;
    fixture.desk.fail(Executed::No).await;
    assert_eq!(asking.await.unwrap().source, Source::Fallback);
    fixture.store.credit(&limit, b"bob", 3);
    assert!(matches!(&fixture.desk.answer().await.lines[..], [Line::Credit { cost: 1, .. }]));
    let asking = fixture.ask(&[(&limit, "bob", 1)]).await;
    assert!(matches!(&fixture.desk.answer().await.lines[..], [Line::Decide { .. }]), "nothing is owed any more");
    assert_eq!(asking.await.unwrap().decisions[0].remaining, 8);
}

#[tokio::test(start_paused = true)]
async fn who_hears_of_a_reset_remembers_nothing_of_the_key() {
    let fixture = fixture();
    let limit = fixture.limit("a", "1/min", OnFailure::Local { share: (1, 1) });
    let asking = fixture.ask(&[(&limit, "bob", 1)]).await;
    fixture.desk.fail(Executed::No).await;
    assert_eq!(asking.await.unwrap().source, Source::Fallback);
    let reset =
        ResetKey { prefix_and_scope: SharedLimit::of(&limit).prefix_and_scope.clone(), key: b"bob".as_slice().into() };
    fixture.store.inner.was_reset_elsewhere(&reset);
    // Neither is it owed, nor is it counted here.
    let asking = fixture.ask(&[(&limit, "bob", 1)]).await;
    fixture.desk.fail(Executed::No).await;
    assert!(asking.await.unwrap().passed);
    fixture.store.inner.was_reset_elsewhere(&reset);
    // What is sent in the same moment may have been refused before.
    sleep(Duration::from_millis(1)).await;
    let asking = fixture.ask(&[(&limit, "bob", 1)]).await;
    assert!(matches!(&fixture.desk.answer().await.lines[..], [Line::Decide { .. }]));
    assert!(asking.await.unwrap().passed);
    assert_eq!(asked(&fixture, &limit).await.source, Source::Exact);
    assert_eq!(asked(&fixture, &limit).await.source, Source::Cached);
    fixture.store.inner.was_reset_elsewhere(&reset);
    assert_eq!(asked(&fixture, &limit).await.source, Source::Exact, "a refusal is not remembered either");
}

#[tokio::test(start_paused = true)]
async fn a_reset_asks_each_slot_once_and_says_when_there_is_no_answer() {
    let fixture = fixture();
    let (one, same) = (fixture.limit("a", "1/min", OnFailure::Open), fixture.limit("a", "2/min", OnFailure::Open));
    let beside = fixture.limit("a/block", "1/min", OnFailure::Open);
    let reset = || {
        let (store, limits) = (Arc::clone(&fixture.store), [one.clone(), same.clone(), beside.clone()]);
        tokio::spawn(async move {
            let keys: Vec<(&Limit, &[u8])> = limits.iter().map(|limit| (limit, b"bob".as_slice())).collect();
            store.inner.reset_here(&keys).await.map(|told| told.len())
        })
    };
    let resetting = reset();
    yield_now().await;
    let call = fixture.desk.answer().await;
    assert!(matches!(&call.lines[..], [Line::Reset { .. }, Line::Reset { .. }]), "{call:?}");
    assert_eq!(resetting.await.unwrap(), Ok(2));
    let resetting = reset();
    yield_now().await;
    fixture.desk.fail(Executed::Unknown).await;
    assert_eq!(resetting.await.unwrap(), Err(ChangeError::NoAnswer));
    let resetting = reset();
    yield_now().await;
    assert_eq!(resetting.await.unwrap(), Err(ChangeError::NoAnswer), "nobody waits for ever");
}
