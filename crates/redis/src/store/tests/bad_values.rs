//! Keys with values that tollgate did not write.

use super::*;

#[tokio::test(start_paused = true)]
async fn bad_value_opens_no_breaker_and_is_reported_once() {
    let fixture = fixture();
    let limit = fixture.limit("per-user", "40/h", OnFailure::Closed);
    for cause in [Cause::WrongType, Cause::Unreadable].into_iter().cycle().take(40) {
        let check = fixture.check(&[(&limit, "mallory", 1)]).await;
        fixture.transport.fail_by(cause, Executed::No).await;
        let outcome = check.await.unwrap();
        assert_eq!((outcome.passed, outcome.source), (false, Source::Fallback));
    }
    let stats = fixture.store.stats();
    assert_eq!((stats.breakers_opened, &stats.breakers[..]), (0, &[(109, BreakerState::Closed)][..]));
    assert!(stats.failures.contains(&("wrong-type", 20)) && stats.failures.contains(&("unreadable", 20)), "{stats:?}");
    let events = fixture.events.lock().unwrap().clone();
    let [event @ StoreEvent::BadValue { keys, cause: "wrong-type", calls: 1 }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(keys, &["tollgate:per-user:"]);
    assert!(event.is_failure() && !event.to_string().contains("mallory"), "{event}");
}

#[tokio::test(start_paused = true)]
async fn refund_to_a_bad_key_is_not_resent() {
    let fixture = fixture();
    let limit = fixture.limit("per-user", "40/h", OnFailure::Closed);
    fixture.store.credit(&limit, b"mallory", 1);
    fixture.transport.fail_by(Cause::WrongType, Executed::No).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fixture.transport.waiting(), 0);
}
