/// Who is to be greeted. Written by hand, so that nobody needs a compiler for `greeter.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HelloRequest {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// A greeting.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HelloReply {
    /// Its text.
    #[prost(string, tag = "1")]
    pub message: String,
}
