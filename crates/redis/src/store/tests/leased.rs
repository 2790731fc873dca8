//! Leases through the store's interface: which requests they decide, and which calls they send.

use tollgate_store::ChargeReceipt;

use super::*;
use crate::call::LeaseRequest;

/// Returns a limit of 1,000 a second whose tokens are leased, for a second.
fn leased(fixture: &Fixture, scope: &str, on_failure: OnFailure) -> Limit {
    let quota = Quota::token_bucket("1000/s burst 1000".parse().unwrap()).unwrap();
    let options =
        LimitOptions { on_failure, refusals: Refusals::Brief, lease: Some(Duration::from_secs(1)), regional: false };
    fixture.store.limit(scope, quota, options).unwrap()
}

/// Makes ten requests, which makes the key frequent, and returns after its first lease of three tokens was granted.
async fn make_frequent(fixture: &Fixture, limit: &Limit, key: &'static str) {
    for _ in 0..10 {
        let check = fixture.check(&[(limit, key, 1)]).await;
        reply_to_all(fixture).await;
        assert_eq!(check.await.unwrap().source, Source::Exact);
    }
    reply_to_all(fixture).await;
}

async fn reply_to_all(fixture: &Fixture) {
    for _ in 0..10 {
        if fixture.transport.waiting() == 0 {
            return;
        }
        fixture.transport.reply().await;
    }
}

/// Checks one request that a lease decides.
async fn decide_by_lease(fixture: &Fixture, limit: &Limit, key: &'static str) -> Outcome {
    let check = fixture.check(&[(limit, key, 1)]).await;
    assert!(check.is_finished(), "a call was sent");
    let outcome = check.await.unwrap();
    assert_eq!((outcome.passed, outcome.source), (true, Source::Leased));
    outcome
}

fn lease_request(call: &Call) -> &LeaseRequest {
    match &call.ops[..] {
        [ScriptOp::Lease(request)] => request,
        ops => panic!("{ops:?}"),
    }
}

fn receipt(mut outcome: Outcome) -> ChargeReceipt {
    outcome.receipts.remove(0).1
}

#[tokio::test(start_paused = true)]
async fn frequent_key_is_decided_without_a_call() {
    let fixture = fixture();
    let limit = leased(&fixture, "a", OnFailure::Closed);
    make_frequent(&fixture, &limit, "bob").await;
    // When it was leased, the server had decided nine. Two of three tokens are left.
    let outcome = decide_by_lease(&fixture, &limit, "bob").await;
    assert_eq!((remaining(&outcome), outcome.receipts.len()), (vec![1_000 - 9 - 3 + 2], 1));
    assert_eq!(fixture.transport.waiting(), 0);
    decide_by_lease(&fixture, &limit, "bob").await;
    // No more than half of the lease is left.
    let call = fixture.transport.reply().await;
    assert_eq!(lease_request(&call).settlements[0].spent, 2);
    assert_eq!(fixture.store.stats().leased_decisions, 2);
}

#[tokio::test(start_paused = true)]
async fn request_with_a_charge_that_cannot_be_leased_is_one_call() {
    let fixture = fixture();
    let (limit, slow) = (leased(&fixture, "a", OnFailure::Closed), fixture.limit("b", "5/min", OnFailure::Closed));
    make_frequent(&fixture, &limit, "bob").await;
    let check = fixture.check(&[(&limit, "bob", 1), (&slow, "bob", 1)]).await;
    let call = fixture.transport.reply().await;
    assert!(matches!(&call.ops[..], [ScriptOp::Decide { charges, .. }] if charges.len() == 2), "{call:?}");
    assert_eq!(check.await.unwrap().source, Source::Exact);
}

#[tokio::test(start_paused = true)]
async fn tokens_of_a_request_that_the_server_refuses_are_not_spent() {
    let fixture = fixture();
    let (a, b) = (leased(&fixture, "a", OnFailure::Closed), leased(&fixture, "b", OnFailure::Closed));
    make_frequent(&fixture, &a, "bob").await;
    let empty = fixture.check(&[(&b, "bob", 1_000)]).await;
    fixture.transport.reply().await;
    assert!(empty.await.unwrap().passed);
    let held = fixture.store.stats().leased_tokens_held;
    let both = fixture.check(&[(&a, "bob", 1), (&b, "bob", 1)]).await;
    reply_to_all(&fixture).await;
    let outcome = both.await.unwrap();
    assert!(!outcome.passed && outcome.receipts.is_empty());
    assert_eq!((outcome.decided, outcome.decisions[0].is_allowed()), (DecidedCharges::All, true));
    assert!(fixture.store.stats().leased_tokens_held >= held, "the token is back in the lease");
}

#[tokio::test(start_paused = true)]
async fn refund_before_the_report_needs_no_call_and_one_after_it_does() {
    let fixture = fixture();
    let limit = leased(&fixture, "a", OnFailure::Closed);
    make_frequent(&fixture, &limit, "bob").await;
    let first = receipt(decide_by_lease(&fixture, &limit, "bob").await);
    decide_by_lease(&fixture, &limit, "bob").await;
    // The report of both.
    reply_to_all(&fixture).await;
    let second = receipt(decide_by_lease(&fixture, &limit, "bob").await);
    let held = fixture.store.stats().leased_tokens_held;
    let waiting = fixture.transport.waiting();
    fixture.store.refund(second);
    assert_eq!((fixture.transport.waiting(), fixture.store.stats().leased_tokens_held), (waiting, held + 1));
    fixture.store.refund(first);
    assert_eq!(fixture.transport.waiting(), waiting + 1);
    let call = loop {
        let call = fixture.transport.reply().await;
        if !matches!(&call.ops[..], [ScriptOp::Lease(_)]) {
            break call;
        }
    };
    assert!(matches!(&call.ops[..], [ScriptOp::Refund { amount: 1, .. }]), "{call:?}");
}

#[tokio::test(start_paused = true)]
async fn settlement_above_the_estimate_is_charged_by_the_server() {
    let fixture = fixture();
    let limit = leased(&fixture, "a", OnFailure::Closed);
    make_frequent(&fixture, &limit, "bob").await;
    let spent = receipt(decide_by_lease(&fixture, &limit, "bob").await);
    reply_to_all(&fixture).await;
    let store = Arc::clone(&fixture.store);
    let settled = tokio::spawn(async move { store.settle(spent, 5).await });
    yield_now().await;
    let call = fixture.transport.reply().await;
    assert!(matches!(&call.ops[..], [ScriptOp::Settle { true_cost: 5, .. }]), "{call:?}");
    assert_eq!(settled.await.unwrap().overrun, 0);
}

#[tokio::test(start_paused = true)]
async fn key_with_a_debt_is_decided_by_the_server_until_the_debt_is_paid() {
    let fixture = fixture();
    let limit = leased(&fixture, "a", OnFailure::Local { share: (1, 2) });
    make_frequent(&fixture, &limit, "bob").await;
    // More than the lease has: the server decides it, and fails.
    let large = fixture.check(&[(&limit, "bob", 20)]).await;
    while fixture.transport.waiting() > 0 {
        fixture.transport.fail(Executed::No).await;
    }
    assert_eq!(large.await.unwrap().source, Source::Fallback);
    assert_eq!(fixture.store.stats().debts, 1);
    let check = fixture.check(&[(&limit, "bob", 1)]).await;
    let call = fixture.transport.reply().await;
    assert!(matches!(&call.ops[..], [ScriptOp::Force { cost: 20, .. }, ScriptOp::Decide { .. }]), "{call:?}");
    assert_eq!((check.await.unwrap().source, fixture.store.stats().debts), (Source::Exact, 0));
    decide_by_lease(&fixture, &limit, "bob").await;
}

#[tokio::test(start_paused = true)]
async fn closing_returns_everything_and_leases_nothing_more() {
    let fixture = fixture();
    let limit = leased(&fixture, "a", OnFailure::Closed);
    make_frequent(&fixture, &limit, "bob").await;
    let store = Arc::clone(&fixture.store);
    let closing = tokio::spawn(async move { store.close().await });
    yield_now().await;
    assert!(!closing.is_finished(), "it waits for the reply");
    let call = fixture.transport.reply().await;
    assert_eq!((lease_request(&call).wanted, lease_request(&call).settlements[0].returned), (0, 3));
    closing.await.unwrap();
    for _ in 0..20 {
        let check = fixture.check(&[(&limit, "bob", 1)]).await;
        let call = fixture.transport.reply().await;
        assert!(matches!(&call.ops[..], [ScriptOp::Decide { .. }]), "{call:?}");
        assert_eq!(check.await.unwrap().source, Source::Exact);
    }
}

#[tokio::test(start_paused = true)]
async fn lease_that_is_granted_too_late_is_returned() {
    let fixture = fixture();
    let limit = leased(&fixture, "a", OnFailure::Closed);
    make_frequent(&fixture, &limit, "bob").await;
    decide_by_lease(&fixture, &limit, "bob").await;
    decide_by_lease(&fixture, &limit, "bob").await;
    // The request for the next lease is answered after everything was returned.
    let (ask, done) = fixture.transport.take();
    let wanted = lease_request(&ask).wanted;
    sleep(Duration::from_millis(1_100)).await;
    reply_to_all(&fixture).await;
    let reply = fixture.transport.0.lock().unwrap().shard.execute(&ask, NOW_US, &mut Vec::new());
    done.complete(Ok(reply));
    yield_now().await;
    let call = fixture.transport.reply().await;
    assert_eq!(lease_request(&call).settlements[0].returned, wanted);
}
