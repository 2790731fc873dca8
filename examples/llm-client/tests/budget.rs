//! Tests the example over loopback.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

use llm_client::{Model, TOKENS_PER_MINUTE};
use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread")]
async fn true_cost_replaces_the_estimate_of_each_call() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = Model::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(llm_client::serve(listener));
    // By their estimates alone, these calls would need twice the budget.
    for _ in 0..20 {
        assert_eq!(model.complete("why is it so").await.unwrap(), "yhw si ti os");
    }
    // Each call costs eight; the bucket refills meanwhile.
    let remaining = model.remaining().unwrap();
    assert!((TOKENS_PER_MINUTE - 20 * 8..=TOKENS_PER_MINUTE).contains(&remaining), "{remaining}");
}
