//! Servers without traffic, and servers that left the topology.

use super::*;

impl Fixture {
    /// Sets the topology, and runs one check half a second later.
    async fn check_servers(&self, shards: &[u16]) {
        let shards = shards.iter().map(|slot| (ShardId(u32::from(*slot)), Slot(*slot))).collect();
        self.desk.0.lock().unwrap().shards = shards;
        sleep(Duration::from_millis(500)).await;
        self.store.inner.check_servers(Instant::now());
        yield_now().await;
    }

    fn states(&self) -> Vec<(u32, BreakerState)> {
        self.store.stats().breakers
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_server_is_given_up_and_taken_back_without_a_check() {
    let fixture = fixture();
    for _ in 0..5 {
        fixture.check_servers(&[7]).await;
        fixture.desk.fail(Executed::No).await;
    }
    assert_eq!(fixture.states(), [(7, BreakerState::Open)]);
    fixture.until_asked().await;
    fixture.desk.answer().await;
    for _ in 0..3 {
        assert_eq!(fixture.states(), [(7, BreakerState::HalfOpen)]);
        fixture.check_servers(&[7]).await;
        fixture.desk.answer().await;
    }
    assert_eq!(fixture.states(), [(7, BreakerState::Closed)]);
    let told = fixture.events.lock().unwrap().clone();
    assert!(
        matches!(&told[..], [StoreEvent::BreakerOpened { server, .. }, StoreEvent::BreakerClosed { .. }] if server == "host:7"),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_asked_anyway_is_not_asked_once_more() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Closed);
    sleep(Duration::from_millis(400)).await;
    let asking = fixture.ask(&[(&limit, "alice", 1)]).await;
    fixture.desk.answer().await;
    assert!(asking.await.unwrap().passed);
    fixture.desk.0.lock().unwrap().shards = vec![(ShardId(97), Slot(97))];
    fixture.store.inner.check_servers(Instant::now());
    assert_eq!(fixture.desk.waiting(), 0);
    fixture.check_servers(&[97]).await;
    assert!(fixture.desk.take().0.lines.is_empty(), "it only asks the time");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_failed_and_left_is_forgotten_and_not_probed() {
    let fixture = fixture();
    for _ in 0..5 {
        fixture.check_servers(&[7]).await;
        fixture.desk.fail(Executed::No).await;
    }
    // An unknown topology has no server that left it.
    fixture.check_servers(&[]).await;
    assert_eq!(fixture.states(), [(7, BreakerState::Open)]);
    let left = StoreEvent::ServerLeft { server: "host:7".to_owned() };
    fixture.check_servers(&[8]).await;
    assert_eq!(fixture.events.lock().unwrap().last(), Some(&left));
    assert_eq!(fixture.states(), [(8, BreakerState::Closed)]);
    sleep(Duration::from_secs(30)).await;
    while fixture.desk.waiting() > 0 {
        fixture.desk.answer().await;
    }
    sleep(Duration::from_secs(30)).await;
    assert_eq!((fixture.desk.waiting(), fixture.states().len()), (0, 1), "probes end with it");
}
