//! Deadlines of callers that share a batch, and of callers whose runtime is not the store's.

use tokio::runtime::Builder;
use tokio::time::advance;

use super::*;

#[tokio::test(start_paused = true)]
async fn each_caller_of_a_batch_waits_until_its_own_deadline() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Closed);
    let began = Instant::now();
    let first = fixture.ask(&[(&limit, "bob", 1)]).await;
    let second = fixture.ask(&[(&limit, "bob", 1)]).await;
    advance(Duration::from_micros(800)).await;
    let third = fixture.ask(&[(&limit, "bob", 1)]).await;
    sleep(Duration::from_millis(2)).await;
    assert_eq!(fixture.desk.waiting(), 2, "the second and the third share a call");
    // Timers of the runtime are a millisecond apart.
    let is_on_time = |deadline: Duration| (deadline..deadline + Duration::from_millis(1)).contains(&began.elapsed());
    assert_eq!(first.await.unwrap().source, Source::Fallback);
    assert_eq!(second.await.unwrap().source, Source::Fallback);
    assert!(is_on_time(Duration::from_millis(20)), "{:?}", began.elapsed());
    assert_eq!(third.await.unwrap().source, Source::Fallback);
    assert!(is_on_time(Duration::from_micros(20_800)), "{:?}", began.elapsed());
}

#[test]
fn no_check_waits_for_ever_where_the_runtime_of_its_store_is_shut_down() {
    let carrying = Builder::new_current_thread().enable_all().build().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let fixture = {
        let _entered = carrying.enter();
        fixture()
    };
    let limit = fixture.limit("a", "9/min", OnFailure::Closed);
    runtime.block_on(async {
        let under_way = fixture.ask(&[(&limit, "bob", 1)]).await;
        assert_eq!(fixture.desk.waiting(), 1);
        carrying.shutdown_background();
        assert_eq!(under_way.await.unwrap().source, Source::Fallback);
        let later = fixture.ask(&[(&limit, "alice", 1)]).await;
        assert_eq!(later.await.unwrap().source, Source::Fallback);
    });
}
