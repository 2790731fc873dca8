//! A client of a language model with a budget of tokens. See `main.rs` for how to try it.

mod model;

use std::time::Duration;

use http::request::Parts;
use serde_json::Value;
use tollgate::client::{ClientCharge, ClientLayer, PacedClient};
use tollgate::tower::BoxError;
use tollgate::{Limiter, LimiterError, Request, rule};
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt, service_fn};

pub use model::serve;

/// The tokens that the client may use in a minute.
pub const TOKENS_PER_MINUTE: u64 = 1_000;

/// The most tokens of an answer; an answer is usually shorter.
const MAX_ANSWER_TOKENS: u64 = 100;

/// The estimated tokens of a call, in the extensions of its request.
#[derive(Clone, Copy)]
struct EstimatedTokens(u64);

type HttpClient = BoxCloneSyncService<http::Request<reqwest::Body>, http::Response<reqwest::Body>, reqwest::Error>;

/// A client of a model. Clones share the budget.
#[derive(Clone)]
pub struct Model {
    url: String,
    budget: Limiter,
    client: PacedClient<HttpClient>,
}

impl Model {
    /// Creates a client of the model at an address.
    pub fn new(url: &str) -> Result<Model, LimiterError> {
        let limit = format!("{TOKENS_PER_MINUTE}/min");
        let budget = Limiter::builder().rule(rule("tokens").per("destination").limit(&limit)).build()?;
        let estimate = |parts: &Parts| parts.extensions.get().map_or(1, |EstimatedTokens(tokens)| *tokens);
        let layer = ClientLayer::new().limiter(budget.clone()).cost(estimate).max_wait(Duration::from_secs(60));
        Ok(Model { url: url.to_owned(), budget, client: layer.layer(http_client()) })
    }

    /// Completes a prompt. The estimate is charged while the model works, and replaced by what the model reports.
    pub async fn complete(&self, prompt: &str) -> Result<String, BoxError> {
        // About four letters are a token.
        let estimate = EstimatedTokens(prompt.len() as u64 / 4 + MAX_ANSWER_TOKENS);
        let request = http::Request::post(format!("{}/complete", self.url)).extension(estimate);
        let request = request.body(prompt.to_owned().into())?;
        let response = self.client.clone().ready().await?.call(request).await?;
        let charge = response.extensions().get::<ClientCharge>().cloned();
        let answer: Value = serde_json::from_slice(&reqwest::Response::from(response).bytes().await?)?;
        if let (Some(charge), Some(tokens)) = (charge, answer["tokens"].as_u64()) {
            charge.settle(tokens).await;
        }
        Ok(answer["text"].as_str().unwrap_or_default().to_owned())
    }

    /// Returns the tokens that remain.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        let host = self.url.trim_start_matches("http://");
        let request = Request { identities: &[("destination", host)], cost: 0, ..Request::from_peer(None) };
        self.budget.peek(&request).remaining()
    }
}

/// Makes a service of reqwest's client.
fn http_client() -> HttpClient {
    let client = reqwest::Client::new();
    BoxCloneSyncService::new(service_fn(move |request: http::Request<reqwest::Body>| {
        let client = client.clone();
        async move { client.execute(request.try_into()?).await.map(http::Response::from) }
    }))
}
