//! A site with a hundred pages that link to each other, limited to fifty requests per second.

use std::io;

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use tokio::net::TcpListener;
use tollgate::{Limiter, rule};

/// The number of pages, with the first one.
pub const PAGES: usize = 100;

/// Serves the site.
pub async fn serve(listener: TcpListener) -> io::Result<()> {
    let Ok(limiter) = Limiter::builder().rule(rule("all").limit("50/s burst 50")).build() else {
        unreachable!("the rule is valid")
    };
    let page = async |Path(number): Path<usize>| links(number);
    let site = Router::new().route("/", get(async || links(0))).route("/page/{number}", get(page));
    axum::serve(listener, site.layer(limiter.layer())).await
}

/// The links of a page: to some ten others.
fn links(number: usize) -> String {
    let targets = (1..=10).map(|step| (number * 3 + step) % PAGES).filter(|target| *target != 0);
    targets.map(|target| format!("/page/{target}\n")).collect()
}
