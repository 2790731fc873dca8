//! How long a check waits for the call of another.

use tokio::time::advance;

use super::*;

fn timeouts(fixture: &Fixture) -> u64 {
    let failures = fixture.store.stats().failures;
    failures.iter().find(|(cause, _)| *cause == "timeout").map_or(0, |(_, count)| *count)
}

#[tokio::test(start_paused = true)]
async fn check_that_joins_waits_for_a_twentieth_of_its_deadline() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Closed);
    let first = fixture.check(&[(&limit, "bob", 1)]).await;
    let joining = [fixture.check(&[(&limit, "bob", 1)]).await, fixture.check(&[(&limit, "bob", 1)]).await];
    assert_eq!(fixture.transport.waiting(), 1);
    sleep(Duration::from_millis(2)).await;
    assert_eq!(fixture.transport.waiting(), 2, "the second call did not wait for the first");
    // The last call was sent longer ago than a check waits.
    let late = fixture.check(&[(&limit, "bob", 1)]).await;
    assert_eq!(fixture.transport.waiting(), 3);
    for times_expected in [1, 2, 1] {
        let call = fixture.transport.reply().await;
        assert!(matches!(&call.ops[..], [ScriptOp::Decide { times, .. }] if *times == times_expected), "{call:?}");
    }
    let mut left = Vec::new();
    for check in [first].into_iter().chain(joining).chain([late]) {
        left.extend(remaining(&check.await.unwrap()));
    }
    assert_eq!(left, [8, 7, 6, 5]);
}

#[tokio::test(start_paused = true)]
async fn check_of_two_slots_sends_to_each_in_time() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Closed);
    let busy = fixture.check(&[(&limit, "bob", 1)]).await;
    // The first slot does not reply, and another call to the second is in flight.
    let both = fixture.check(&[(&limit, "alice", 1), (&limit, "bob", 1)]).await;
    assert_eq!(fixture.transport.waiting(), 2);
    sleep(Duration::from_millis(2)).await;
    assert_eq!(fixture.transport.waiting(), 3, "the second slot is called before the first has replied");
    drop((busy, both));
}

#[tokio::test(start_paused = true)]
async fn check_times_out_although_others_of_its_call_have_more_time() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Closed);
    let first = fixture.check(&[(&limit, "bob", 1)]).await;
    let second = fixture.check(&[(&limit, "bob", 1)]).await;
    advance(Duration::from_micros(600)).await;
    let third = fixture.check(&[(&limit, "bob", 1)]).await;
    sleep(Duration::from_millis(2)).await;
    assert_eq!(fixture.transport.waiting(), 2);
    assert_eq!(first.await.unwrap().source, Source::Fallback);
    assert_eq!(second.await.unwrap().source, Source::Fallback);
    assert_eq!(timeouts(&fixture), 2, "one for each call");
    assert_eq!(third.await.unwrap().source, Source::Fallback);
    assert_eq!(timeouts(&fixture), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_key_in_flight_are_bounded() {
    let fixture = fixture();
    let limit = fixture.limit("a", "999/min", OnFailure::Closed);
    let mut check = Vec::new();
    for _ in 0..190 {
        check.push(fixture.check(&[(&limit, "bob", 1)]).await);
        advance(Duration::from_micros(100)).await;
    }
    assert!((10..=20).contains(&fixture.transport.waiting()), "{}", fixture.transport.waiting());
}
