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
//! The first three calls are greeted, and the response metadata has the remaining
//! calls. The fourth gets the status `RESOURCE_EXHAUSTED` with `retry-after`.
//! Without grpcurl, `curl` shows the same fields:
//!
//! ```text
//! printf '\0\0\0\0\5\n\3you' | curl -i --http2-prior-knowledge --data-binary @- \
//!   -H 'content-type: application/grpc' http://127.0.0.1:50051/greeter.Greeter/SayHello --output -
//! ```
#![allow(clippy::print_stdout, reason = "prints its address")]

use std::error::Error;

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let listener = TcpListener::bind("127.0.0.1:50051").await?;
    println!("listening on http://{}", listener.local_addr()?);
    tonic_greeter::serve(listener).await
}
