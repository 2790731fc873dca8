//! Crawls a limited site, which it also serves:
//!
//! ```text
//! cargo run -p crawler
//! ```
//!
//! The site allows fifty requests per second. The crawler reads what remains from each response, and slows down before
//! the site refuses anything.
#![allow(clippy::print_stdout, reason = "prints its result")]

use tokio::net::TcpListener;
use tollgate::tower::BoxError;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let site = format!("http://{}", listener.local_addr()?);
    tokio::spawn(crawler::serve(listener));
    let (pages, refused) = crawler::crawl(&site).await?;
    println!("visited {} pages of {site}; {refused} requests were refused", pages.len());
    Ok(())
}
