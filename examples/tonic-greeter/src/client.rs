use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::{HelloReply, HelloRequest};

/// Calls `SayHello`.
pub async fn greet(channel: &Channel, name: &str) -> Result<Response<HelloReply>, Status> {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let request = Request::new(HelloRequest { name: name.to_owned() });
    let path = PathAndQuery::from_static("/greeter.Greeter/SayHello");
    client.unary(request, path, ProstCodec::<HelloRequest, HelloReply>::default()).await
}
