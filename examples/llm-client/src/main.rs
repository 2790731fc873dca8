//! Calls a language model, which it also serves, within a budget of a thousand tokens a minute:
//!
//! ```text
//! cargo run -p llm-client
//! ```
//!
//! A call is charged its estimate of some hundred tokens, so at most ten calls are in flight. Each costs ten in the
//! end, and the rest of its estimate returns to the budget when its response has arrived.
#![allow(clippy::print_stdout, reason = "prints the answers")]

use llm_client::Model;
use tokio::net::TcpListener;
use tollgate::tower::BoxError;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let model = Model::new(&format!("http://{}", listener.local_addr()?))?;
    tokio::spawn(llm_client::serve(listener));
    for number in 0..20 {
        let answer = model.complete(&format!("what is the number {number}")).await?;
        println!("{answer} ({} tokens remain)", model.remaining().unwrap_or(0));
    }
    Ok(())
}
