//! The cost of the layer for a request that does not wait: reqwest and hyper with the layer, and without.

use std::time::Instant;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tollgate::AlgorithmKind;
use tollgate::client::ClientLayer;
use tower::{Layer, Service, ServiceExt};

use crate::server::Server;
use crate::strategies::as_service;

/// Requests of one turn.
const TURN: usize = 500;

/// The goal: the share of the time of a request that the layer may take.
const MOST_PERCENT: f64 = 5.0;

pub(crate) fn measure(rounds: usize) {
    // The server sends all fields, so the layer reads them.
    let server = Server::start("10000000/s", AlgorithmKind::TokenBucket);
    let url = format!("http://{}/", server.address);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let samples = runtime.block_on(async {
        let reqwest = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut layered_reqwest = ClientLayer::new().layer(as_service(reqwest.clone()));
        let mut plain_reqwest = as_service(reqwest);
        let hyper: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let mut layered_hyper = ClientLayer::new().layer(hyper.clone());
        let mut plain_hyper = hyper;
        let mut samples = vec![[0.0; 4]; rounds];
        eprintln!("the cost of the layer, {rounds} rounds");
        for (round, sample) in samples.iter_mut().enumerate() {
            for turn in 0..4 {
                let at = (round + turn) % 4;
                sample[at] = match at {
                    0 => turn_of(&mut plain_reqwest, &url, reqwest::Body::default).await,
                    1 => turn_of(&mut layered_reqwest, &url, reqwest::Body::default).await,
                    2 => turn_of(&mut plain_hyper, &url, Empty::new).await,
                    _ => turn_of(&mut layered_hyper, &url, Empty::new).await,
                };
            }
        }
        samples
    });
    report(&samples);
}

/// Sends requests one after the other, and returns the microseconds of each.
async fn turn_of<S, In, Out>(service: &mut S, url: &str, body: impl Fn() -> In) -> f64
where
    S: Service<Request<In>, Response = http::Response<Out>>,
    S::Error: std::fmt::Debug,
    Out: http_body_util::BodyExt<Data = Bytes>,
    Out::Error: std::fmt::Debug,
{
    let start = Instant::now();
    for _ in 0..TURN {
        let request = Request::get(url).header("x-api-key", "one").body(body()).unwrap();
        let response = service.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(response.status(), 200);
        BodyExt::collect(response.into_body()).await.unwrap();
    }
    start.elapsed().as_secs_f64() * 1e6 / TURN as f64
}

fn report(samples: &[[f64; 4]]) {
    println!("\n| a request over loopback | plain | with the layer | more, median of adjacent turns |");
    println!("| --- | --- | --- | --- |");
    let column = |at: usize| median(samples.iter().map(|sample| sample[at]).collect());
    let mut all_pass = true;
    for (name, plain, layered) in [("reqwest", 0, 1), ("hyper", 2, 3)] {
        let more = median(samples.iter().map(|sample| (sample[layered] / sample[plain] - 1.0) * 100.0).collect());
        all_pass &= more <= MOST_PERCENT;
        println!("| {name} | {:.1} us | {:.1} us | {more:+.1} % |", column(plain), column(layered));
    }
    println!("\n| goal | |\n| --- | --- |");
    println!("| the layer takes at most {MOST_PERCENT} % | {} |", if all_pass { "pass" } else { "fall short" });
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
