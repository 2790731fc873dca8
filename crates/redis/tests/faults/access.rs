//! A server that does not accept the password.

use tollgate_store::{OnFailure, Store};
use tollgate_testbed::{RedisServer, RedisSetup};

use crate::support::{
    Load, begin_to_connect, eager, endless_log, options, standalone_options, troubles, until, until_exact, used,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_the_stores_trouble_until_somebody_repairs_it() {
    const SHARE: u64 = 10;
    let setup = RedisSetup { password: Some("the server's"), ..RedisSetup::default() };
    let server = RedisServer::start_with(setup).unwrap();
    let mut redis = standalone_options(server.address());
    redis.password = Some("the store's".into());
    let store = begin_to_connect(&redis, eager());
    let local = options(OnFailure::Local { share: (1, 100) });
    let limit = store.limit("password", endless_log(SHARE * 100), local).unwrap();
    let load = Load::start(&store, &limit, &["alice"], 8);
    load.until_fallen_back(500).await;
    until("the server refuses the password", || troubles(&store, "authentication") > 0).await;
    let refused = troubles(&store, "authentication");
    assert!(!store.is_ready());
    server.command(&["ACL", "SETUSER", "default", ">the store's"]).unwrap();
    let back = until_exact(&store, &limit, "alice").await;
    load.until_admitted(50).await;
    let tally = load.end().await;
    tally.report("wrong password");
    println!("wrong password: {refused} calls, exact again after {back:?}");
    assert!(tally.admitted_in_fallback() <= SHARE, "{} by share", tally.admitted_in_fallback());
    let used = used(&store, &limit, "alice").await;
    assert!((tally.exactly_admitted()..=tally.admitted() + tally.fallen_back()).contains(&used), "{used} used");
}
