/// The request. Written by hand, so that the example needs no protobuf compiler.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HelloRequest {
    /// The name to greet.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// The reply.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HelloReply {
    /// The greeting.
    #[prost(string, tag = "1")]
    pub message: String,
}
