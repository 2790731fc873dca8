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
    Asked, ErrorResponse, FileDescriptorResponse, ListServiceResponse, ServerReflectionRequest,
    ServerReflectionResponse, ServiceResponse, Told,
};

/// `grpc.reflection.v1.ServerReflection/ServerReflectionInfo`: what can be asked here, for tools such as grpcurl.
#[derive(Clone, Debug)]
pub(super) struct Reflection(pub(super) watch::Receiver<bool>);

impl StreamingService<ServerReflectionRequest> for Reflection {
    type Response = ServerReflectionResponse;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<ServerReflectionResponse, Status>> + Send>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, questions: Request<Streaming<ServerReflectionRequest>>) -> Self::Future {
        let answers = questions.into_inner().map(|question| Some(question.map(answer)));
        // Nobody who keeps a stream open can keep the service from stopping.
        let stopped = WatchStream::new(self.0.clone()).filter(|stopped| *stopped).map(|_| None);
        let until_either_ends = answers.chain(tokio_stream::once(None)).merge(stopped).take_while(Option::is_some);
        ready(Ok(Response::new(Box::pin(until_either_ends.filter_map(|answer| answer)))))
    }
}

fn answer(question: ServerReflectionRequest) -> ServerReflectionResponse {
    let told = match &question.asked {
        Some(Asked::ListServices(_)) => Told::Services(ListServiceResponse {
            service: SERVICES.iter().map(|name| ServiceResponse { name: (*name).to_owned() }).collect(),
        }),
        Some(Asked::FileByFilename(name)) => files(&files_of(name)),
        Some(Asked::FileContainingSymbol(symbol)) => files(&file_of(symbol).map_or_else(Vec::new, files_of)),
        None => error(Code::Unimplemented, "there are no extensions"),
    };
    ServerReflectionResponse { valid_host: question.host.clone(), original_request: Some(question), told: Some(told) }
}

fn files(files: &[prost_types::FileDescriptorProto]) -> Told {
    if files.is_empty() {
        return error(Code::NotFound, "there is no such file or symbol");
    }
    Told::Files(FileDescriptorResponse { file_descriptor_proto: files.iter().map(Message::encode_to_vec).collect() })
}

fn error(code: Code, message: &str) -> Told {
    Told::Error(ErrorResponse { error_code: code.into(), error_message: message.to_owned() })
}
