use std::error::Error;
use std::fmt::Display;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;

use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::Body as HttpBody;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::{HelloReply, HelloRequest};

/// Calls `SayHello` over a channel, with or without layers around it.
pub async fn greet<C>(channel: &C, name: &str) -> Result<Response<HelloReply>, Status>
where
    C: GrpcService<
            Body,
            ResponseBody: HttpBody<Data: Send, Error: Into<Box<dyn Error + Send + Sync>> + Send> + Send + 'static,
        > + Clone,
    C::Error: Display,
{
    let mut client = Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let request = Request::new(HelloRequest { name: name.to_owned() });
    let path = PathAndQuery::from_static("/greeter.Greeter/SayHello");
    client.unary(request, path, ProstCodec::<HelloRequest, HelloReply>::default()).await
}
