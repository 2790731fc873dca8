//! A crawler that visits a limited site, many pages at a time, and is never refused. See `main.rs` for how to try it.

mod site;

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate::client::{ClientLayer, PacedClient};
use tollgate::tower::BoxError;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt, service_fn};

pub use site::{PAGES, serve};

type HttpClient = BoxCloneSyncService<http::Request<reqwest::Body>, http::Response<reqwest::Body>, reqwest::Error>;

/// Pages that are fetched at the same time. Most of them wait for their turn.
const AT_ONCE: usize = 20;

/// Visits all pages that can be reached by links. Returns their paths, and how many responses were refusals.
pub async fn crawl(site: &str) -> Result<(BTreeSet<String>, usize), BoxError> {
    // One layer for all tasks: they share what is known of the site.
    let client = ClientLayer::new().max_wait(Duration::from_secs(120)).layer(http_client());
    let (mut known, mut refused) = (BTreeSet::from(["/".to_owned()]), 0);
    let mut to_visit: Vec<String> = known.iter().cloned().collect();
    let mut visits = JoinSet::new();
    loop {
        while let Some(path) = to_visit.pop_if(|_| visits.len() < AT_ONCE) {
            visits.spawn(links_of(client.clone(), format!("{site}{path}")));
        }
        let Some(visited) = visits.join_next().await else { return Ok((known, refused)) };
        match visited?? {
            Some(links) => to_visit.extend(links.into_iter().filter(|link| known.insert(link.clone()))),
            None => refused += 1,
        }
    }
}

/// Fetches a page, and returns its links, one for each line; `None` if the site refused.
async fn links_of(mut client: PacedClient<HttpClient>, url: String) -> Result<Option<Vec<String>>, BoxError> {
    let request = http::Request::get(url).body(reqwest::Body::default())?;
    let response = reqwest::Response::from(client.ready().await?.call(request).await?);
    if !response.status().is_success() {
        return Ok(None);
    }
    Ok(Some(response.text().await?.lines().map(str::to_owned).collect()))
}

/// Makes a service of reqwest's client.
fn http_client() -> HttpClient {
    let client = reqwest::Client::new();
    BoxCloneSyncService::new(service_fn(move |request: http::Request<reqwest::Body>| {
        let client = client.clone();
        async move { client.execute(request.try_into()?).await.map(http::Response::from) }
    }))
}
