//! A server that accepts calls and does not answer.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_debt_does_not_travel_while_the_server_leaves_calls_unanswered() {
    let fixture = fixture();
    let limit = fixture.limit("a", "40/h", OnFailure::Local { share: (1, 4) });
    let has_debt = |call: &Call| call.lines.iter().any(|line| matches!(line, Line::Force { .. }));
    for _ in 0..3 {
        let outcome = fixture.ask(&[(&limit, "alice", 1)]).await.await.unwrap();
        assert_eq!((outcome.passed, outcome.source), (true, Source::Fallback));
    }
    let (calls, dones): (Vec<Call>, Vec<Done>) = (0..3).map(|_| fixture.desk.take()).unzip();
    assert!(!calls.iter().any(has_debt), "{calls:?}");
    assert_eq!(fixture.store.stats().debts, 1);
    // The connection is lost, and another one answers: whatever the first was sent has expired.
    dones.into_iter().for_each(|done| done.hear(Err(Trouble { cause: Cause::Timeout, executed: Executed::Unknown })));
    assert_eq!(fixture.store.stats().uncertain_charges, 3);
    let asking = fixture.ask(&[(&limit, "alice", 1)]).await;
    let call = fixture.desk.answer().await;
    assert!(matches!(call.lines[0], Line::Force { cost: 3, .. }), "{call:?}");
    assert_eq!(remaining(&asking.await.unwrap()), [36]);
    assert_eq!((fixture.store.stats().debts, fixture.store.stats().paid_debts), (0, 1));
    fixture.store.inner.check_servers(Instant::now());
    let paid = StoreEvent::DebtsPaid { debts: 1, amount: 3, still_owing: 0 };
    assert_eq!(fixture.events.lock().unwrap().last(), Some(&paid));
}

#[tokio::test(start_paused = true)]
async fn what_expired_on_its_way_leaves_its_debt_owed() {
    let fixture = fixture();
    let limit = fixture.limit("a", "40/h", OnFailure::Local { share: (1, 4) });
    let asking = fixture.ask(&[(&limit, "alice", 1)]).await;
    fixture.desk.fail(Executed::No).await;
    assert!(asking.await.unwrap().passed);
    let asking = fixture.ask(&[(&limit, "alice", 1)]).await;
    fixture.desk.fail_by(Cause::Timeout, Executed::No).await;
    assert!(asking.await.unwrap().passed);
    let asking = fixture.ask(&[(&limit, "alice", 1)]).await;
    let call = fixture.desk.answer().await;
    assert!(matches!(call.lines[0], Line::Force { cost: 2, .. }), "{call:?}");
    assert!(asking.await.unwrap().passed);
    assert_eq!(fixture.store.stats().uncertain_charges, 0);
}
