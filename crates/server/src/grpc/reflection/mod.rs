//! `grpc.reflection.v1` and `v1alpha`.

pub(in crate::grpc) mod files;
pub(in crate::grpc) mod messages;

use std::future::{Ready, ready};
use std::pin::Pin;

use prost::Message;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::server::StreamingService;
use tonic::{Code, Request, Response, Status, Streaming};

use super::service::SERVICES;
use files::{file_of, files_of};
use messages::{
    ErrorResponse, FileDescriptorResponse, ListServiceResponse, MessageRequest, MessageResponse,
    ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
};

/// `grpc.reflection.v1.ServerReflection/ServerReflectionInfo`: describes the services, for tools such as grpcurl.
#[derive(Clone, Debug)]
pub(super) struct Reflection(pub(super) watch::Receiver<bool>);

impl StreamingService<ServerReflectionRequest> for Reflection {
    type Response = ServerReflectionResponse;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<ServerReflectionResponse, Status>> + Send>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, requests: Request<Streaming<ServerReflectionRequest>>) -> Self::Future {
        let responses = requests.into_inner().map(|request| Some(request.map(respond)));
        // An open stream must not block shutdown.
        let stopped = WatchStream::new(self.0.clone()).filter(|stopped| *stopped).map(|_| None);
        let until_either_ends = responses.chain(tokio_stream::once(None)).merge(stopped).take_while(Option::is_some);
        ready(Ok(Response::new(Box::pin(until_either_ends.filter_map(|response| response)))))
    }
}

fn respond(request: ServerReflectionRequest) -> ServerReflectionResponse {
    let message_response = match &request.message_request {
        Some(MessageRequest::ListServices(_)) => MessageResponse::Services(ListServiceResponse {
            service: SERVICES.iter().map(|name| ServiceResponse { name: (*name).to_owned() }).collect(),
        }),
        Some(MessageRequest::FileByFilename(name)) => files(&files_of(name)),
        Some(MessageRequest::FileContainingSymbol(symbol)) => files(&file_of(symbol).map_or_else(Vec::new, files_of)),
        None => error(Code::Unimplemented, "extensions are not supported"),
    };
    ServerReflectionResponse {
        valid_host: request.host.clone(),
        original_request: Some(request),
        message_response: Some(message_response),
    }
}

fn files(files: &[prost_types::FileDescriptorProto]) -> MessageResponse {
    if files.is_empty() {
        return error(Code::NotFound, "unknown file or symbol");
    }
    MessageResponse::Files(FileDescriptorResponse {
        file_descriptor_proto: files.iter().map(Message::encode_to_vec).collect(),
    })
}

fn error(code: Code, message: &str) -> MessageResponse {
    MessageResponse::Error(ErrorResponse { error_code: code.into(), error_message: message.to_owned() })
}
