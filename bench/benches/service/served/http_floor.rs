use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// The constant response: that of the service to a first request, so that it has the same size.
const ONE_ANSWER: &[u8] = br#"{"allowed":true,"action":"allow","rule":"per-ip","limit":2000000,"remaining":1999999,"reset_after_ms":1,"retry_after_ms":null,"source":"exact","rules":[{"rule":"per-ip","allowed":true,"limit":2000000,"remaining":1999999,"reset_after_ms":1,"retry_after_ms":null,"shadow":false}]}"#;

/// Plain hyper: reads the body, and returns a constant response.
pub(super) async fn serve(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"{"));
    let mut response = Response::new(Full::new(Bytes::from_static(ONE_ANSWER)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
