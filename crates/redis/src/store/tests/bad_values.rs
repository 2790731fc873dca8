//! Keys with values that tollgate did not write.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_error_of_a_key_opens_no_breaker_and_is_reported_once() {
    let fixture = fixture();
    let limit = fixture.limit("per-user", "40/h", OnFailure::Closed);
    for cause in [Cause::WrongType, Cause::Unreadable].into_iter().cycle().take(40) {
        let asking = fixture.ask(&[(&limit, "mallory", 1)]).await;
        fixture.desk.fail_by(cause, Executed::No).await;
        let outcome = asking.await.unwrap();
        assert_eq!((outcome.passed, outcome.source), (false, Source::Fallback));
    }
    let stats = fixture.store.stats();
    assert_eq!((stats.breakers_opened, &stats.breakers[..]), (0, &[(109, BreakerState::Closed)][..]));
    assert!(stats.troubles.contains(&("wrong-type", 20)) && stats.troubles.contains(&("unreadable", 20)), "{stats:?}");
    let told = fixture.events.lock().unwrap().clone();
    let [event @ StoreEvent::BadValue { keys, cause: "wrong-type", calls: 1 }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(keys, &["tollgate:per-user:"]);
    assert!(event.is_trouble() && !event.to_string().contains("mallory"), "{event}");
}

#[tokio::test(start_paused = true)]
async fn a_refund_to_a_bad_key_is_not_resent() {
    let fixture = fixture();
    let limit = fixture.limit("per-user", "40/h", OnFailure::Closed);
    fixture.store.credit(&limit, b"mallory", 1);
    fixture.desk.fail_by(Cause::WrongType, Executed::No).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fixture.desk.waiting(), 0);
}
