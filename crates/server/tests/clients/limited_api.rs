//! A limited API, and the programs of docs/clients.md against it, as they are in the page.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::get;
use tollgate::{Limiter, rule};

use crate::program::{command, stdout_of};

/// The number of requests that each program sends.
const REQUESTS: usize = 20;

/// What arrived at the API.
#[derive(Default)]
struct Arrived {
    all: AtomicUsize,
    refused: AtomicUsize,
}

/// Starts an API that allows five requests per second and ten at once. It runs until the test process ends.
fn start() -> (SocketAddr, Arc<Arrived>) {
    let arrived = Arc::new(Arrived::default());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Arc::clone(&arrived);
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, app(counts)).await.unwrap();
        });
    });
    (address, arrived)
}

fn app(arrived: Arc<Arrived>) -> Router {
    let limiter = Limiter::builder().rule(rule("api").limit("5/s burst 10")).build().unwrap();
    let count = move |request: Request, next: Next| {
        let arrived = Arc::clone(&arrived);
        async move {
            let response = next.run(request).await;
            arrived.all.fetch_add(1, Ordering::Relaxed);
            arrived.refused.fetch_add(usize::from(!response.status().is_success()), Ordering::Relaxed);
            response
        }
    };
    Router::new().route("/items/{item}", get(async || "an item")).layer(limiter.layer()).layer(from_fn(count))
}

/// Returns the program of the page in this language.
fn program_of_the_page(language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/clients.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut programs = page.split("```").filter_map(|part| part.strip_prefix(&format!("{language}\n")));
    let program = programs.next().unwrap_or_else(|| panic!("the page has no program in {language}"));
    assert_eq!(programs.next(), None, "the page has one program in {language}");
    program.to_owned()
}

/// Runs a program of the page. It gets all its responses, and is refused once at most: when a busy machine delays it.
pub(crate) fn run_program_of_the_page(language: &str, interpreter: &str, ending: &str) {
    let file = std::env::temp_dir().join(format!("tollgate-clients-{}.{ending}", std::process::id()));
    std::fs::write(&file, program_of_the_page(language)).unwrap();
    let (address, arrived) = start();
    let url = format!("http://{address}");
    let stdout = stdout_of(command(interpreter).arg(&file).env("API_URL", url).env("no_proxy", "*"));
    let _ = std::fs::remove_file(&file);
    assert_eq!(stdout.lines().collect::<Vec<_>>(), ["200"; REQUESTS], "{stdout}");
    let (all, refused) = (arrived.all.load(Ordering::Relaxed), arrived.refused.load(Ordering::Relaxed));
    assert!(refused <= 1 && all == REQUESTS + refused, "{all} requests, {refused} refused");
}
