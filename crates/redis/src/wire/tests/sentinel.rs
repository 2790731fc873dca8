use std::time::Duration;

use tokio::time::Instant;
use tollgate_testbed::{RedisServer, SentinelTrio};

use super::helpers::{PLENTY, increment};
use crate::transport::{Cause, Slot, Transport};
use crate::wire::client::Client;
use crate::wire::connection::access::Access;
use crate::wire::connection::address::Address;
use crate::wire::connection::stream::Connector;
use crate::wire::options::RedisOptions;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_is_replaced_by_the_one_that_the_sentinels_name() {
    let mut trio = SentinelTrio::start().unwrap();
    let mut sentinels: Vec<_> = trio.addresses().iter().map(ToString::to_string).collect();
    // One that is not there makes no difference.
    sentinels.insert(0, "127.0.0.1:1".to_owned());
    let mut options = RedisOptions::sentinel(sentinels, SentinelTrio::PRIMARY);
    // Only trouble is a reason to ask again.
    options.refresh_every = Duration::from_secs(3600);
    let client = Client::start(&options).unwrap();
    println!("ready after {:?}", client.ready().await);
    client.wait(increment("n"), PLENTY).await.unwrap();
    let before = client.shard(Slot(0));
    trio.servers()[0].kill().unwrap();
    let begun = Instant::now();
    client.recovers("n").await;
    println!("after a killed primary: {:?}", begun.elapsed());
    client.wait(increment("n"), PLENTY).await.unwrap();
    assert_ne!(client.shard(Slot(0)), before);
}

#[tokio::test]
async fn a_server_that_is_no_primary_is_not_taken_for_one() {
    let server = RedisServer::start(&[]).unwrap();
    let address = Address::parse(&server.address().to_string()).unwrap();
    let access = Access {
        connector: Connector::Plain,
        username: None,
        password: None,
        database: 0,
        only_primary: true,
        timeout: PLENTY,
    };
    assert_eq!(access.connect(&address).await.err(), None);
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    assert_eq!(access.connect(&address).await.err(), Some(Cause::Unavailable));
}
