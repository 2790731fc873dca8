//! How long a check waits for the call of another.

use tokio::time::advance;

use super::*;

fn timeouts(fixture: &Fixture) -> u64 {
    let troubles = fixture.store.stats().troubles;
    troubles.iter().find(|(cause, _)| *cause == "timeout").map_or(0, |(_, count)| *count)
}

#[tokio::test(start_paused = true)]
async fn check_that_joins_waits_for_a_twentieth_of_its_deadline() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Closed);
    let first = fixture.ask(&[(&limit, "bob", 1)]).await;
    let joining = [fixture.ask(&[(&limit, "bob", 1)]).await, fixture.ask(&[(&limit, "bob", 1)]).await];
    assert_eq!(fixture.desk.waiting(), 1);
    sleep(Duration::from_millis(2)).await;
    assert_eq!(fixture.desk.waiting(), 2, "the second call did not wait for the first");
    // The last call set out longer ago than a check waits.
    let late = fixture.ask(&[(&limit, "bob", 1)]).await;
    assert_eq!(fixture.desk.waiting(), 3);
    for times_expected in [1, 2, 1] {
        let call = fixture.desk.answer().await;
        assert!(matches!(&call.lines[..], [Line::Decide { times, .. }] if *times == times_expected), "{call:?}");
    }
    let mut left = Vec::new();
    for asking in [first].into_iter().chain(joining).chain([late]) {
        left.extend(remaining(&asking.await.unwrap()));
    }
    assert_eq!(left, [8, 7, 6, 5]);
}

#[tokio::test(start_paused = true)]
async fn check_of_two_slots_sends_to_each_in_time() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Closed);
    let busy = fixture.ask(&[(&limit, "bob", 1)]).await;
    // The first slot does not answer, and another call about the second is under way.
    let both = fixture.ask(&[(&limit, "alice", 1), (&limit, "bob", 1)]).await;
    assert_eq!(fixture.desk.waiting(), 2);
    sleep(Duration::from_millis(2)).await;
    assert_eq!(fixture.desk.waiting(), 3, "the second slot is asked before the first has answered");
    drop((busy, both));
}

#[tokio::test(start_paused = true)]
async fn check_without_an_answer_is_a_timeout_although_others_of_its_call_have_more_time() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Closed);
    let first = fixture.ask(&[(&limit, "bob", 1)]).await;
    let second = fixture.ask(&[(&limit, "bob", 1)]).await;
    advance(Duration::from_micros(600)).await;
    let third = fixture.ask(&[(&limit, "bob", 1)]).await;
    sleep(Duration::from_millis(2)).await;
    assert_eq!(fixture.desk.waiting(), 2);
    assert_eq!(first.await.unwrap().source, Source::Fallback);
    assert_eq!(second.await.unwrap().source, Source::Fallback);
    assert_eq!(timeouts(&fixture), 2, "one for each call");
    assert_eq!(third.await.unwrap().source, Source::Fallback);
    assert_eq!(timeouts(&fixture), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_key_under_way_are_bounded() {
    let fixture = fixture();
    let limit = fixture.limit("a", "999/min", OnFailure::Closed);
    let mut asking = Vec::new();
    for _ in 0..190 {
        asking.push(fixture.ask(&[(&limit, "bob", 1)]).await);
        advance(Duration::from_micros(100)).await;
    }
    assert!((10..=20).contains(&fixture.desk.waiting()), "{}", fixture.desk.waiting());
}
