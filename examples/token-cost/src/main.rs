//! A budget of tokens: estimated before the answer, counted after it.
//!
//! ```text
//! cargo run -p token-cost
//! curl -i -H 'X-User-ID: ann' -d 'why is the sky blue' http://127.0.0.1:3000/complete
//! curl http://127.0.0.1:3000/budget/ann
//! ```
//!
//! While the answer is being made, the estimate of 100 tokens is charged: the
//! response tells that 900 remain. It took 20 (5 asked, 15 answered), so that
//! the budget then stands at 980. A long question costs more than the estimate,
//! here even more than there is: then nothing is left, and the next has to wait
//! until there is room for its estimate again:
//!
//! ```text
//! curl -i -H 'X-User-ID: ann' -d "$(seq -s ' ' 100000000 100000150)" http://127.0.0.1:3000/complete
//! curl -i -H 'X-User-ID: ann' -d 'and now' http://127.0.0.1:3000/complete
//! ```
#![allow(clippy::print_stdout, reason = "it tells where it listens")]

use std::error::Error;

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    token_cost::serve(listener, token_cost::app()?).await?;
    Ok(())
}
