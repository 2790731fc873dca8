//! Tests the example over loopback.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread")]
async fn crawler_visits_all_pages_and_is_never_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(crawler::serve(listener));
    let (pages, refused) = crawler::crawl(&site).await.unwrap();
    assert_eq!((pages.len(), refused), (crawler::PAGES, 0));
}
