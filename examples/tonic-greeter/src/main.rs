//! A limit in front of a gRPC service.
//!
//! ```text
//! cargo run -p tonic-greeter
//! for i in 1 2 3 4; do
//!   grpcurl -v -plaintext -import-path examples/tonic-greeter -proto greeter.proto \
//!     -d '{"name": "you"}' 127.0.0.1:50051 greeter.Greeter/SayHello
//! done
//! ```
//!
//! Three are greeted, and find in the response's metadata what remains. The
//! fourth has the status `RESOURCE_EXHAUSTED`, with `retry-after` beside it.
//! Without grpcurl, `curl` shows the same fields:
//!
//! ```text
//! printf '\0\0\0\0\5\n\3you' | curl -i --http2-prior-knowledge --data-binary @- \
//!   -H 'content-type: application/grpc' http://127.0.0.1:50051/greeter.Greeter/SayHello --output -
//! ```
#![allow(clippy::print_stdout, reason = "it tells where it listens")]

use std::error::Error;

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let listener = TcpListener::bind("127.0.0.1:50051").await?;
    println!("listening on http://{}", listener.local_addr()?);
    tonic_greeter::serve(listener).await
}
