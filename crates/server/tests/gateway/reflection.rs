//! What tools such as grpcurl ask before they call.

use http::uri::PathAndQuery;
use prost::Message;
use prost_types::FileDescriptorProto;
use tollgate_server::Drained;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;

use crate::running::Running;

const POLICY: &str = "version: 1
rules: [ { name: per-ip, key: client_ip, limit: 3/min } ]
";

#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(string, tag = "3")]
    file: String,
    #[prost(string, tag = "4")]
    symbol: String,
    #[prost(string, tag = "7")]
    list: String,
}

#[derive(Clone, PartialEq, Message)]
struct Told {
    #[prost(message, optional, tag = "4")]
    files: Option<Files>,
    #[prost(message, optional, tag = "6")]
    services: Option<Services>,
    #[prost(message, optional, tag = "7")]
    error: Option<Failed>,
}

#[derive(Clone, PartialEq, Message)]
struct Files {
    #[prost(bytes = "vec", repeated, tag = "1")]
    files: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    services: Vec<Named>,
}

#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Failed {
    #[prost(int32, tag = "1")]
    code: i32,
}

fn told(running: &Running, path: &'static str, questions: Vec<Question>) -> Vec<Told> {
    let mut client = Grpc::new(running.client.channel.clone());
    running.client.runtime.block_on(async {
        client.ready().await.unwrap();
        let codec = ProstCodec::<Question, Told>::default();
        let request = tonic::Request::new(tokio_stream::iter(questions));
        let mut answers = client.streaming(request, PathAndQuery::from_static(path), codec).await.unwrap().into_inner();
        let mut told = Vec::new();
        while let Some(answer) = answers.message().await.unwrap() {
            told.push(answer);
        }
        told
    })
}

#[test]
fn every_service_is_described_with_all_that_it_needs() {
    let running = Running::under(POLICY);
    for path in [
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ] {
        let list = Question { list: "*".to_owned(), ..Question::default() };
        let listed = told(&running, path, vec![list]).remove(0).services.unwrap().services;
        assert_eq!(listed.len(), 4);
        let symbol = |name: &Named| Question { symbol: name.name.clone(), ..Question::default() };
        let described = told(&running, path, listed.iter().map(symbol).collect());
        for (service, answer) in listed.iter().zip(described) {
            let files: Vec<FileDescriptorProto> =
                answer.files.unwrap().files.iter().map(|file| FileDescriptorProto::decode(&**file).unwrap()).collect();
            let names: Vec<&str> = files.iter().map(|file| file.name()).collect();
            assert!(files.iter().flat_map(|file| &file.dependency).all(|needed| names.contains(&needed.as_str())));
            let (package, name) = service.name.rsplit_once('.').unwrap();
            assert_eq!((files[0].package(), files[0].service[0].name()), (package, name));
            assert!(all_known(&files), "{names:?}");
        }
    }
}

/// Whether every message and enum that a field or a method names is there.
fn all_known(files: &[FileDescriptorProto]) -> bool {
    let mut known = Vec::new();
    let mut named = Vec::new();
    for file in files {
        for message in &file.message_type {
            let full = format!(".{}.{}", file.package(), message.name());
            collect(message, &full, &mut known, &mut named);
        }
        known.extend(file.enum_type.iter().map(|choices| format!(".{}.{}", file.package(), choices.name())));
        let methods = file.service.iter().flat_map(|service| &service.method);
        named.extend(methods.flat_map(|method| [method.input_type().to_owned(), method.output_type().to_owned()]));
    }
    named.iter().all(|name| known.contains(name))
}

fn collect(message: &prost_types::DescriptorProto, full: &str, known: &mut Vec<String>, named: &mut Vec<String>) {
    known.push(full.to_owned());
    known.extend(message.enum_type.iter().map(|choices| format!("{full}.{}", choices.name())));
    named.extend(message.field.iter().filter_map(|field| field.type_name.clone()));
    for inner in &message.nested_type {
        collect(inner, &format!("{full}.{}", inner.name()), known, named);
    }
}

#[test]
fn what_does_not_exist_is_said_and_the_end_of_the_service_ends_it() {
    let running = Running::under(POLICY);
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let asked =
        |file: &str, symbol: &str| Question { file: file.to_owned(), symbol: symbol.to_owned(), ..Question::default() };
    let answers = told(&running, path, vec![asked("no.proto", ""), asked("", "no.Service"), Question::default()]);
    let codes: Vec<i32> = answers.into_iter().map(|answer| answer.error.unwrap().code).collect();
    assert_eq!(codes, [5, 5, 12]);
    let mut client = Grpc::new(running.client.channel.clone());
    let runtime = std::sync::Arc::clone(&running.client.runtime);
    let mut open = runtime.block_on(async {
        client.ready().await.unwrap();
        let codec = ProstCodec::<Question, Told>::default();
        let silent = tonic::Request::new(tokio_stream::pending());
        client.streaming(silent, PathAndQuery::from_static(path), codec).await.unwrap().into_inner()
    });
    assert_eq!(running.drained(), Drained::Completely);
    assert_eq!(runtime.block_on(open.message()).unwrap(), None);
}
