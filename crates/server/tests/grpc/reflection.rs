//! Server reflection, which tools such as grpcurl use before they call a method.

use http::uri::PathAndQuery;
use prost::Message;
use prost_types::FileDescriptorProto;
use tollgate_server::Drained;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;

use crate::test_service::TestService;

const POLICY: &str = "version: 1
rules: [ { name: per-ip, key: client_ip, limit: 3/min } ]
";

#[derive(Clone, PartialEq, Message)]
struct ReflectionRequest {
    #[prost(string, tag = "3")]
    file: String,
    #[prost(string, tag = "4")]
    symbol: String,
    #[prost(string, tag = "7")]
    list: String,
}

#[derive(Clone, PartialEq, Message)]
struct ReflectionResponse {
    #[prost(message, optional, tag = "4")]
    files: Option<FileDescriptors>,
    #[prost(message, optional, tag = "6")]
    services: Option<ServiceList>,
    #[prost(message, optional, tag = "7")]
    error: Option<ReflectionError>,
}

#[derive(Clone, PartialEq, Message)]
struct FileDescriptors {
    #[prost(bytes = "vec", repeated, tag = "1")]
    files: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct ServiceList {
    #[prost(message, repeated, tag = "1")]
    services: Vec<ServiceName>,
}

#[derive(Clone, PartialEq, Message)]
struct ServiceName {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct ReflectionError {
    #[prost(int32, tag = "1")]
    code: i32,
}

fn reflect(running: &TestService, path: &'static str, requests: Vec<ReflectionRequest>) -> Vec<ReflectionResponse> {
    let mut client = Grpc::new(running.client.channel.clone());
    running.client.runtime.block_on(async {
        client.ready().await.unwrap();
        let codec = ProstCodec::<ReflectionRequest, ReflectionResponse>::default();
        let request = tonic::Request::new(tokio_stream::iter(requests));
        let mut responses =
            client.streaming(request, PathAndQuery::from_static(path), codec).await.unwrap().into_inner();
        let mut received = Vec::new();
        while let Some(response) = responses.message().await.unwrap() {
            received.push(response);
        }
        received
    })
}

#[test]
fn every_service_is_described_with_all_dependencies() {
    let running = TestService::with_policy(POLICY);
    for path in [
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ] {
        let list = ReflectionRequest { list: "*".to_owned(), ..ReflectionRequest::default() };
        let listed = reflect(&running, path, vec![list]).remove(0).services.unwrap().services;
        assert_eq!(listed.len(), 4);
        let symbol =
            |name: &ServiceName| ReflectionRequest { symbol: name.name.clone(), ..ReflectionRequest::default() };
        let described = reflect(&running, path, listed.iter().map(symbol).collect());
        for (service, response) in listed.iter().zip(described) {
            let files: Vec<FileDescriptorProto> = response
                .files
                .unwrap()
                .files
                .iter()
                .map(|file| FileDescriptorProto::decode(&**file).unwrap())
                .collect();
            let names: Vec<&str> = files.iter().map(|file| file.name()).collect();
            assert!(
                files.iter().flat_map(|file| &file.dependency).all(|dependency| names.contains(&dependency.as_str()))
            );
            let (package, name) = service.name.rsplit_once('.').unwrap();
            assert_eq!((files[0].package(), files[0].service[0].name()), (package, name));
            assert!(all_types_are_declared(&files), "{names:?}");
        }
    }
}

/// Whether every message and enum that a field or a method refers to is declared.
fn all_types_are_declared(files: &[FileDescriptorProto]) -> bool {
    let mut declared = Vec::new();
    let mut referenced = Vec::new();
    for file in files {
        for message in &file.message_type {
            let full = format!(".{}.{}", file.package(), message.name());
            collect(message, &full, &mut declared, &mut referenced);
        }
        declared.extend(file.enum_type.iter().map(|enumeration| format!(".{}.{}", file.package(), enumeration.name())));
        let methods = file.service.iter().flat_map(|service| &service.method);
        referenced.extend(methods.flat_map(|method| [method.input_type().to_owned(), method.output_type().to_owned()]));
    }
    referenced.iter().all(|name| declared.contains(name))
}

fn collect(
    message: &prost_types::DescriptorProto,
    full: &str,
    declared: &mut Vec<String>,
    referenced: &mut Vec<String>,
) {
    declared.push(full.to_owned());
    declared.extend(message.enum_type.iter().map(|enumeration| format!("{full}.{}", enumeration.name())));
    referenced.extend(message.field.iter().filter_map(|field| field.type_name.clone()));
    for inner in &message.nested_type {
        collect(inner, &format!("{full}.{}", inner.name()), declared, referenced);
    }
}

#[test]
fn unknown_names_get_an_error_and_shutdown_ends_the_stream() {
    let running = TestService::with_policy(POLICY);
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let lookup = |file: &str, symbol: &str| ReflectionRequest {
        file: file.to_owned(),
        symbol: symbol.to_owned(),
        ..ReflectionRequest::default()
    };
    let responses =
        reflect(&running, path, vec![lookup("no.proto", ""), lookup("", "no.Service"), ReflectionRequest::default()]);
    let codes: Vec<i32> = responses.into_iter().map(|response| response.error.unwrap().code).collect();
    assert_eq!(codes, [5, 5, 12]);
    let mut client = Grpc::new(running.client.channel.clone());
    let runtime = std::sync::Arc::clone(&running.client.runtime);
    let mut open = runtime.block_on(async {
        client.ready().await.unwrap();
        let codec = ProstCodec::<ReflectionRequest, ReflectionResponse>::default();
        let no_requests = tonic::Request::new(tokio_stream::pending());
        client.streaming(no_requests, PathAndQuery::from_static(path), codec).await.unwrap().into_inner()
    });
    assert_eq!(running.shut_down(), Drained::Completely);
    assert_eq!(runtime.block_on(open.message()).unwrap(), None);
}
