//! The messages of `grpc.reflection.v1`, which are those of `v1alpha`, too.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct ServerReflectionRequest {
    #[prost(string, tag = "1")]
    pub(in crate::grpc) host: String,
    #[prost(oneof = "MessageRequest", tags = "3, 4, 7")]
    pub(in crate::grpc) message_request: Option<MessageRequest>,
}

/// Unsupported requests are omitted.
#[derive(Clone, PartialEq, Oneof)]
pub(in crate::grpc) enum MessageRequest {
    #[prost(string, tag = "3")]
    FileByFilename(String),
    #[prost(string, tag = "4")]
    FileContainingSymbol(String),
    #[prost(string, tag = "7")]
    ListServices(String),
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct ServerReflectionResponse {
    #[prost(string, tag = "1")]
    pub(in crate::grpc) valid_host: String,
    #[prost(message, optional, tag = "2")]
    pub(in crate::grpc) original_request: Option<ServerReflectionRequest>,
    #[prost(oneof = "MessageResponse", tags = "4, 6, 7")]
    pub(in crate::grpc) message_response: Option<MessageResponse>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(in crate::grpc) enum MessageResponse {
    #[prost(message, tag = "4")]
    Files(FileDescriptorResponse),
    #[prost(message, tag = "6")]
    Services(ListServiceResponse),
    #[prost(message, tag = "7")]
    Error(ErrorResponse),
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct FileDescriptorResponse {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(in crate::grpc) file_descriptor_proto: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct ListServiceResponse {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::grpc) service: Vec<ServiceResponse>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct ServiceResponse {
    #[prost(string, tag = "1")]
    pub(in crate::grpc) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::grpc) struct ErrorResponse {
    #[prost(int32, tag = "1")]
    pub(in crate::grpc) error_code: i32,
    #[prost(string, tag = "2")]
    pub(in crate::grpc) error_message: String,
}
