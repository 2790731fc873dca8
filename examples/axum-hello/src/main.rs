//! A limit for each client address in front of an axum service.
//!
//! ```text
//! cargo run -p axum-hello
//! for i in 1 2 3 4 5 6; do curl -i http://127.0.0.1:3000/; done
//! ```
//!
//! The first five responses greet, and have the remaining requests in `RateLimit`
//! and `X-RateLimit-*`. The sixth is a 429 with a `Retry-After` of 12 seconds, and
//! its body names the limit.
#![allow(clippy::print_stdout, reason = "prints its address")]

use std::error::Error;

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, five requests a minute for each address; try:");
    println!("  for i in 1 2 3 4 5 6; do curl -i http://{address}/; done");
    axum_hello::serve(listener, axum_hello::app()?).await?;
    Ok(())
}
