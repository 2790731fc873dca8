//! Deadlines of callers that share a batch, and of callers whose runtime is not the store's.

use tokio::runtime::Builder;
use tokio::time::advance;

use super::*;

#[tokio::test(start_paused = true)]
async fn each_caller_of_a_batch_waits_until_its_own_deadline() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Closed);
    let began = Instant::now();
    let first = fixture.check(&[(&limit, "bob", 1)]).await;
    let second = fixture.check(&[(&limit, "bob", 1)]).await;
    advance(Duration::from_micros(800)).await;
    let third = fixture.check(&[(&limit, "bob", 1)]).await;
    sleep(Duration::from_millis(2)).await;
    assert_eq!(fixture.transport.waiting(), 2, "the second and the third share a call");
    // Timers of the runtime have a resolution of a millisecond.
    let is_on_time = |deadline: Duration| (deadline..deadline + Duration::from_millis(1)).contains(&began.elapsed());
    assert_eq!(first.await.unwrap().source, Source::Fallback);
    assert_eq!(second.await.unwrap().source, Source::Fallback);
    assert!(is_on_time(Duration::from_millis(20)), "{:?}", began.elapsed());
    assert_eq!(third.await.unwrap().source, Source::Fallback);
    assert!(is_on_time(Duration::from_micros(20_800)), "{:?}", began.elapsed());
}

#[test]
fn checks_end_when_the_runtime_of_the_store_is_shut_down() {
    let store_runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let fixture = {
        let _entered = store_runtime.enter();
        fixture()
    };
    let limit = fixture.limit("a", "9/min", OnFailure::Closed);
    runtime.block_on(async {
        let in_flight = fixture.check(&[(&limit, "bob", 1)]).await;
        assert_eq!(fixture.transport.waiting(), 1);
        store_runtime.shutdown_background();
        assert_eq!(in_flight.await.unwrap().source, Source::Fallback);
        let later = fixture.check(&[(&limit, "alice", 1)]).await;
        assert_eq!(later.await.unwrap().source, Source::Fallback);
    });
}
