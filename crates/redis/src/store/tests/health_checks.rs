//! Servers without traffic, and servers that left the topology.

use super::*;

impl Fixture {
    /// Sets the topology, and runs one check half a second later.
    async fn check_servers(&self, shards: &[u16]) {
        let shards = shards.iter().map(|slot| (ShardId(u32::from(*slot)), Slot(*slot))).collect();
        self.transport.0.lock().unwrap().shards = shards;
        sleep(Duration::from_millis(500)).await;
        self.store.inner.check_servers(Instant::now());
        yield_now().await;
    }

    fn states(&self) -> Vec<(u32, BreakerState)> {
        self.store.stats().breakers
    }
}

#[tokio::test(start_paused = true)]
async fn breaker_of_an_idle_server_opens_and_closes_without_checks() {
    let fixture = fixture();
    for _ in 0..5 {
        fixture.check_servers(&[7]).await;
        fixture.transport.fail(Executed::No).await;
    }
    assert_eq!(fixture.states(), [(7, BreakerState::Open)]);
    fixture.until_sent().await;
    fixture.transport.reply().await;
    for _ in 0..3 {
        assert_eq!(fixture.states(), [(7, BreakerState::HalfOpen)]);
        fixture.check_servers(&[7]).await;
        fixture.transport.reply().await;
    }
    assert_eq!(fixture.states(), [(7, BreakerState::Closed)]);
    let events = fixture.events.lock().unwrap().clone();
    assert!(
        matches!(&events[..], [StoreEvent::BreakerOpened { server, .. }, StoreEvent::BreakerClosed { .. }] if server == "host:7"),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn server_with_traffic_is_not_probed() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Closed);
    sleep(Duration::from_millis(400)).await;
    let check = fixture.check(&[(&limit, "alice", 1)]).await;
    fixture.transport.reply().await;
    assert!(check.await.unwrap().passed);
    fixture.transport.0.lock().unwrap().shards = vec![(ShardId(97), Slot(97))];
    fixture.store.inner.check_servers(Instant::now());
    assert_eq!(fixture.transport.waiting(), 0);
    fixture.check_servers(&[97]).await;
    assert!(fixture.transport.take().0.ops.is_empty(), "a probe has no operations");
}

#[tokio::test(start_paused = true)]
async fn failing_server_that_left_is_removed_and_not_probed() {
    let fixture = fixture();
    for _ in 0..5 {
        fixture.check_servers(&[7]).await;
        fixture.transport.fail(Executed::No).await;
    }
    // An unknown topology has no server that left it.
    fixture.check_servers(&[]).await;
    assert_eq!(fixture.states(), [(7, BreakerState::Open)]);
    let left = StoreEvent::ServerLeft { server: "host:7".to_owned() };
    fixture.check_servers(&[8]).await;
    assert_eq!(fixture.events.lock().unwrap().last(), Some(&left));
    assert_eq!(fixture.states(), [(8, BreakerState::Closed)]);
    sleep(Duration::from_secs(30)).await;
    while fixture.transport.waiting() > 0 {
        fixture.transport.reply().await;
    }
    sleep(Duration::from_secs(30)).await;
    assert_eq!((fixture.transport.waiting(), fixture.states().len()), (0, 1), "probes have ended");
}

#[tokio::test(start_paused = true)]
async fn server_that_was_out_of_memory_is_probed_with_a_write() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Open);
    // The slot of a key is its first byte here, and the keys of probes are numbers.
    let slot = u16::from(b'5');
    let check = fixture.check(&[(&limit, "5", 1)]).await;
    fixture.transport.fail_by(Cause::OutOfMemory, Executed::No).await;
    assert_eq!(check.await.unwrap().source, Source::Fallback);
    // With fewer requests than probes too, the breaker opens: reading probes would reset the count of failures.
    for _ in 0..4 {
        sleep(Duration::from_millis(500)).await;
        fixture.check_servers(&[slot]).await;
        fixture.transport.fail_by(Cause::OutOfMemory, Executed::No).await;
    }
    assert_eq!(fixture.states(), [(u32::from(slot), BreakerState::Open)]);
    fixture.until_sent().await;
    let (call, done) = fixture.transport.take();
    let [ScriptOp::Force { target, cost: 1 }] = &call.ops[..] else { panic!("{call:?}") };
    assert_eq!(String::from_utf8_lossy(&target.key), "tollgate:.probe:{5}");
    let answers = smallvec::smallvec![crate::call::Answer::Forced { unpaid: 0 }];
    done.complete(Ok(crate::call::ScriptReply { now: NOW_US, answers }));
    yield_now().await;
    assert_eq!(fixture.states(), [(u32::from(slot), BreakerState::HalfOpen)]);
    fixture.check_servers(&[slot]).await;
    assert!(fixture.transport.take().0.ops.is_empty(), "a call that writes has succeeded");
}
