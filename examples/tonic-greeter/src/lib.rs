//! A limit in front of a gRPC service. See `main.rs` for how to try it.

mod client;
mod messages;
mod service;

pub use client::greet;
pub use messages::{HelloReply, HelloRequest};
pub use service::Greeter;

use std::error::Error;

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tollgate::{Limiter, rule};
use tonic::transport::Server;

/// Serves greetings, three a minute for each client address. A method's path is `/package.Service/Method`.
pub async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error + Send + Sync>> {
    let limiter = Limiter::builder()
        .rule(rule("greetings").per("client_ip").path("/greeter.Greeter/*").limit("3/min"))
        .build()?;
    let server = Server::builder().layer(limiter.layer()).add_service(Greeter);
    Ok(server.serve_with_incoming(TcpListenerStream::new(listener)).await?)
}
