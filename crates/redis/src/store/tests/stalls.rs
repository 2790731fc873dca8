//! A server that accepts calls and does not reply.

use super::*;

#[tokio::test(start_paused = true)]
async fn debt_is_not_sent_while_calls_are_overdue() {
    let fixture = fixture();
    let limit = fixture.limit("a", "40/h", OnFailure::Local { share: (1, 4) });
    let has_debt = |call: &Call| call.ops.iter().any(|op| matches!(op, ScriptOp::Force { .. }));
    for _ in 0..3 {
        let outcome = fixture.check(&[(&limit, "alice", 1)]).await.await.unwrap();
        assert_eq!((outcome.passed, outcome.source), (true, Source::Fallback));
    }
    let (calls, dones): (Vec<Call>, Vec<Done>) = (0..3).map(|_| fixture.transport.take()).unzip();
    assert!(!calls.iter().any(has_debt), "{calls:?}");
    assert_eq!(fixture.store.stats().debts, 1);
    // The connection is lost, and a new one replies: the calls on the first have expired.
    dones
        .into_iter()
        .for_each(|done| done.complete(Err(CallError { cause: Cause::Timeout, executed: Executed::Unknown })));
    assert_eq!(fixture.store.stats().uncertain_charges, 3);
    let check = fixture.check(&[(&limit, "alice", 1)]).await;
    let call = fixture.transport.reply().await;
    assert!(matches!(call.ops[0], ScriptOp::Force { cost: 3, .. }), "{call:?}");
    assert_eq!(remaining(&check.await.unwrap()), [36]);
    assert_eq!((fixture.store.stats().debts, fixture.store.stats().paid_debts), (0, 1));
    fixture.store.inner.check_servers(Instant::now());
    let paid = StoreEvent::DebtsPaid { debts: 1, amount: 3, still_owing: 0 };
    assert_eq!(fixture.events.lock().unwrap().last(), Some(&paid));
}

#[tokio::test(start_paused = true)]
async fn debt_remains_if_its_call_expired() {
    let fixture = fixture();
    let limit = fixture.limit("a", "40/h", OnFailure::Local { share: (1, 4) });
    let check = fixture.check(&[(&limit, "alice", 1)]).await;
    fixture.transport.fail(Executed::No).await;
    assert!(check.await.unwrap().passed);
    let check = fixture.check(&[(&limit, "alice", 1)]).await;
    fixture.transport.fail_by(Cause::Timeout, Executed::No).await;
    assert!(check.await.unwrap().passed);
    let check = fixture.check(&[(&limit, "alice", 1)]).await;
    let call = fixture.transport.reply().await;
    assert!(matches!(call.ops[0], ScriptOp::Force { cost: 2, .. }), "{call:?}");
    assert!(check.await.unwrap().passed);
    assert_eq!(fixture.store.stats().uncertain_charges, 0);
}
