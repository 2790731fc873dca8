//! A real gRPC server behind the layer, and a real client before it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::uri::PathAndQuery;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tollgate::policy::PolicyBuilder;
use tollgate::policy::model::{IdentitySource, OnInvalid};
use tollgate::{AsyncLimiter, Limiter, LimiterBuilder, rule};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::{NamedService, UnaryService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::support::Down;

/// A message with one text, for both ways.
#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Text>, Status>> + Send>>;

/// A greeter, as a code generator would write it.
#[derive(Clone)]
struct Greeter;

impl UnaryService<Text> for Greeter {
    type Response = Text;
    type Future = Answer;

    fn call(&mut self, request: Request<Text>) -> Answer {
        Box::pin(async move { Ok(Response::new(Text { text: format!("hello {}", request.into_inner().text) })) })
    }
}

impl NamedService for Greeter {
    const NAME: &'static str = "test.Greeter";
}

impl Service<http::Request<Body>> for Greeter {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut grpc = tonic::server::Grpc::new(ProstCodec::<Text, Text>::default());
        Box::pin(async move { Ok(grpc.unary(Greeter, request).await) })
    }
}

struct Serving {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(limiter: &AsyncLimiter) -> Serving {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().layer(limiter.layer()).add_service(Greeter);
    let task = tokio::spawn(async move { server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap() });
    Serving { address, task }
}

async fn connect(serving: &Serving) -> tonic::client::Grpc<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", serving.address)).unwrap();
    tonic::client::Grpc::new(endpoint.connect().await.unwrap())
}

async fn greet(client: &mut tonic::client::Grpc<Channel>) -> Result<Response<Text>, Status> {
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/test.Greeter/SayHello");
    client.unary(Request::new(Text { text: "you".to_owned() }), path, ProstCodec::<Text, Text>::default()).await
}

fn text(metadata: &tonic::metadata::MetadataMap, name: &str) -> Option<String> {
    let values: Vec<_> = metadata.get_all(name).iter().collect();
    assert!(values.len() <= 1, "{name} is there twice");
    Some((*values.first()?).to_str().unwrap().to_owned())
}

async fn greeted(limiter: LimiterBuilder, times: usize) -> Vec<Result<Response<Text>, Status>> {
    let serving = serve(&limiter.build().unwrap()).await;
    let mut client = connect(&serving).await;
    let mut answers = Vec::new();
    for _ in 0..times {
        answers.push(greet(&mut client).await);
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_responses_carry_limits_as_metadata() {
    let answers = greeted(Limiter::builder().rule(rule("per-ip").per("client_ip").limit("2/day")), 3).await;
    for (left, answer) in [("1", &answers[0]), ("0", &answers[1])] {
        let answer = answer.as_ref().unwrap();
        assert_eq!(answer.get_ref().text, "hello you");
        let field = |name: &str| text(answer.metadata(), name);
        assert_eq!(field("ratelimit-policy").as_deref(), Some("\"per-ip\";q=2;w=86400"));
        assert_eq!(field("x-ratelimit-remaining").as_deref(), Some(left));
        assert_eq!(field("retry-after"), None);
    }
    let status = answers[2].as_ref().unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "the limit is reached"));
    let field = |name: &str| text(status.metadata(), name);
    assert_eq!(field("x-ratelimit-limit").as_deref(), Some("2"));
    assert_eq!(field("x-ratelimit-remaining").as_deref(), Some("0"));
    assert!(field("ratelimit").unwrap().starts_with("\"per-ip\";r=0;t="));
    let seconds: u64 = field("retry-after").unwrap().parse().unwrap();
    assert!((43_190..=43_200).contains(&seconds), "{seconds}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_message_is_the_grpc_status_message() {
    let message = "100 % used. Süß!";
    let answers = greeted(Limiter::builder().rule(rule("all").limit("1/day").message(message)), 2).await;
    let status = answers[1].as_ref().unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, message));
}

/// A method is a path: `/package.Service/Method`.
#[tokio::test(flavor = "multi_thread")]
async fn rules_match_grpc_services_and_methods() {
    let elsewhere = rule("elsewhere").path("/test.Other/*").limit("1/h");
    let here = rule("here").path("/test.Greeter/SayHello").limit("2/day");
    let answers = greeted(Limiter::builder().rule(elsewhere).rule(here), 3).await;
    let codes: Vec<Option<Code>> = answers.iter().map(|answer| answer.as_ref().err().map(Status::code)).collect();
    assert_eq!(codes, [None, None, Some(Code::ResourceExhausted)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_client_gets_permission_denied() {
    let deny = Limiter::builder()
        .rule(rule("all").limit("9/h"))
        .with(|policy| policy.deny.client_ip = vec!["127.0.0.0/8".parse().unwrap()]);
    let answers = greeted(deny, 1).await;
    assert_eq!(answers[0].as_ref().unwrap_err().code(), Code::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_token_is_unauthenticated_under_on_invalid_refuse() {
    let limiter = Limiter::builder()
        .rule(rule("per-token").per("token").limit("9/h"))
        .identity("token", IdentitySource::Bearer)
        .with(|policy| policy.identities[0].on_invalid = OnInvalid::Refuse);
    let serving = serve(&limiter.build().unwrap()).await;
    let mut client = connect(&serving).await;
    client.ready().await.unwrap();
    let mut request = Request::new(Text { text: "you".to_owned() });
    // A token behind another scheme is one that some see and others do not.
    request.metadata_mut().append("authorization", "Basic YTpi".parse().unwrap());
    request.metadata_mut().append("authorization", "Bearer x".parse().unwrap());
    let path = PathAndQuery::from_static("/test.Greeter/SayHello");
    let status = client.unary(request, path, ProstCodec::<Text, Text>::default()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "the token cannot be used"));
}

#[tokio::test(flavor = "multi_thread")]
async fn store_failure_is_grpc_unavailable() {
    let policy = PolicyBuilder::default().rule(rule("all").limit("9/h")).build().unwrap();
    let serving = serve(&AsyncLimiter::with_store(&policy, Down { retry_after_ns: None }).unwrap()).await;
    let status = greet(&mut connect(&serving).await).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(text(status.metadata(), "retry-after").as_deref(), Some("1"));
}

/// The trailers, with the status of the call, still come after the layer's body.
#[tokio::test(flavor = "multi_thread")]
async fn permits_are_held_during_a_grpc_call() {
    let answers = greeted(Limiter::builder().rule(rule("slots").concurrency(1)), 200).await;
    assert!(answers.iter().all(Result::is_ok));
}
