//! A token limit: the cost is estimated before the response, and settled after it.
//!
//! ```text
//! cargo run -p token-cost
//! curl -i -H 'X-User-ID: ann' -d 'why is the sky blue' http://127.0.0.1:3000/complete
//! curl http://127.0.0.1:3000/budget/ann
//! ```
//!
//! While the response is being computed, the estimate of 100 tokens is charged:
//! the response has 900 remaining. The true cost is 20 (5 for the prompt, 15 for
//! the answer), so the budget is then 980. A long prompt costs more than the
//! estimate, here even more than the budget. Then nothing remains, and the next
//! request has to wait until its estimate fits again:
//!
//! ```text
//! curl -i -H 'X-User-ID: ann' -d "$(seq -s ' ' 100000000 100000150)" http://127.0.0.1:3000/complete
//! curl -i -H 'X-User-ID: ann' -d 'and now' http://127.0.0.1:3000/complete
//! ```
#![allow(clippy::print_stdout, reason = "prints its address")]

use std::error::Error;

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    token_cost::serve(listener, token_cost::app()?).await?;
    Ok(())
}
