//! Permits: held until the response has ended, whatever its end is, and never longer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get as route;
use bytes::Bytes;
use http::Request as HttpRequest;
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tollgate::tower::PeerAddress;
use tollgate::{AsyncLimiter, Limiter, ManualClock, Request, rule};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{App, Client, Server, behind, clock, get, hesitant};

fn limited_to(permits: u64) -> App {
    Limiter::builder().rule(rule("reports").concurrency(permits)).build_with_clock(clock()).unwrap()
}

/// How many permits are free.
async fn free(limiter: &AsyncLimiter) -> u64 {
    let verdict = limiter.peek(&Request { cost: 0, ..Request::from_peer(None) }).await;
    verdict.states()[0].decision.remaining
}

/// A body whose pieces come when the test sends them.
struct Pieces(mpsc::UnboundedReceiver<Result<Bytes, &'static str>>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

type Sender = mpsc::UnboundedSender<Result<Bytes, &'static str>>;

/// A service that answers with such a body, and hands its other end to the test.
fn streaming(limiter: &App) -> (Router, mpsc::UnboundedReceiver<Sender>) {
    let (senders, received) = mpsc::unbounded_channel();
    let handler = move || {
        let (sender, pieces) = mpsc::unbounded_channel();
        senders.send(sender).unwrap();
        async { Body::new(Pieces(pieces)) }
    };
    (behind(limiter, Router::new().route("/", route(handler))), received)
}

async fn begin(app: &Router) -> axum::response::Response {
    app.clone().oneshot(HttpRequest::get("/").body(Body::empty()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn permit_is_held_until_the_body_ends() {
    let limiter = limited_to(1);
    let (app, mut senders) = streaming(&limiter);
    let response = begin(&app).await;
    let sender = senders.recv().await.unwrap();
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    for _ in 0..3 {
        sender.send(Ok(Bytes::from_static(b"piece"))).unwrap();
        body.frame().await.unwrap().unwrap();
        assert_eq!(free(&limiter).await, 0);
        assert_eq!(begin(&app).await.status(), 429);
    }
    drop(sender);
    assert!(body.frame().await.is_none());
    // The body is still there, but nothing more is to come of it.
    assert_eq!(free(&limiter).await, 1);
    drop(body);
    assert_eq!(free(&limiter).await, 1);
}

#[tokio::test]
async fn failed_or_dropped_body_releases_its_permit() {
    let limiter = limited_to(1);
    let (app, mut senders) = streaming(&limiter);
    for _ in 0..1_000 {
        let mut failing = begin(&app).await.into_body();
        senders.recv().await.unwrap().send(Err("broken")).unwrap();
        assert!(failing.frame().await.unwrap().is_err());
        assert_eq!(free(&limiter).await, 1);

        let dropped = begin(&app).await;
        senders.recv().await.unwrap();
        assert_eq!(free(&limiter).await, 0);
        drop(dropped);
        assert_eq!(free(&limiter).await, 1);
    }
}

#[tokio::test]
async fn dropped_request_releases_its_permit() {
    let limiter = limited_to(1);
    let app = behind(&limiter, Router::new().route("/", route(std::future::pending::<&str>)));
    for _ in 0..1_000 {
        let mut request = Box::pin(begin(&app));
        assert!(poll_once(&mut request).is_pending());
        assert_eq!(free(&limiter).await, 0);
        drop(request);
        assert_eq!(free(&limiter).await, 1);
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(std::task::Waker::noop()))
}

#[tokio::test]
async fn failed_or_panicked_service_releases_its_permit() {
    let limiter = limited_to(1);
    let calls = Arc::new(AtomicUsize::new(0));
    let service = limiter.layer().layer(service_fn(move |_: HttpRequest<Body>| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        async move {
            if call.is_multiple_of(2) { Err::<axum::response::Response, _>("failed") } else { panic!("it panics") }
        }
    }));
    for at in 0..1_000 {
        let request = HttpRequest::get("/").body(Body::empty()).unwrap();
        let outcome = tokio::spawn(service.clone().oneshot(request)).await;
        match outcome {
            Ok(answer) => assert_eq!(answer.unwrap_err(), "failed", "{at}"),
            Err(error) => assert!(error.is_panic(), "{at}"),
        }
        assert_eq!(free(&limiter).await, 1, "{at}");
    }
}

#[tokio::test]
async fn permits_of_an_async_store_are_released() {
    let limiter = hesitant(rule("reports").concurrency(2));
    let app = behind(&limiter, Router::new().route("/", route(|| async { "hello" })));
    for _ in 0..1_000 {
        // One is polled once, when the store has not answered; one twice, when it has.
        let (mut early, mut late) = (Box::pin(begin(&app)), Box::pin(begin(&app)));
        assert!(poll_once(&mut early).is_pending());
        assert!(poll_once(&mut late).is_pending());
        drop(early);
        assert_eq!(late.await.status(), 200);
        assert_eq!(get(&app, "/").await.status, 200);
        assert_eq!(free(&limiter).await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_client_releases_its_permit() {
    let limiter = Limiter::builder().rule(rule("reports").concurrency(1)).build().unwrap();
    let endless = || async {
        let (sender, pieces) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while sender.send(Ok(Bytes::from_static(b"piece"))).is_ok() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        Body::new(Pieces(pieces))
    };
    let server = Server::start(behind(&limiter, Router::new().route("/", route(endless)))).await;
    for _ in 0..5 {
        let mut client = Client::connect(server.address).await;
        client.write("GET", "/", &[]).await;
        assert_eq!(client.read_head().await.0, 200);
        assert_eq!(&*client.read_chunk().await, b"piece");
        assert_eq!(Client::connect(server.address).await.get("/").await.status, 429);
        drop(client);
        wait_until_free(&limiter).await;
    }
}

/// A server does not poll a body that has no data.
#[tokio::test(flavor = "multi_thread")]
async fn response_without_body_releases_its_permit() {
    let limiter = Limiter::builder().rule(rule("reports").concurrency(1)).build().unwrap();
    let routes = Router::new().route("/empty", route(|| async { http::StatusCode::NO_CONTENT }));
    let routes = routes.route("/head", route(|| async { "not sent" }));
    let server = Server::start(behind(&limiter, routes)).await;
    let mut client = Client::connect(server.address).await;
    for _ in 0..50 {
        for (method, path, status) in [("GET", "/empty", 204), ("HEAD", "/head", 200)] {
            client.write(method, path, &[]).await;
            assert_eq!(client.read_head().await.0, status);
            wait_until_free(&limiter).await;
        }
    }
}

async fn wait_until_free(limiter: &Limiter) {
    for _ in 0..2_000 {
        if free(limiter).await == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the permit never came back");
}

/// Moves both clocks: tokio's, by which leases are renewed, and the limiter's, by which they run out.
async fn pass_time(clock: &ManualClock, seconds: u64) {
    for _ in 0..seconds {
        clock.advance(Duration::from_secs(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn slow_handler_renews_its_permit() {
    let clock = clock();
    let limiter = Limiter::builder().rule(rule("reports").concurrency(1)).build_with_clock(clock.clone()).unwrap();
    let slow = || async {
        tokio::time::sleep(Duration::from_secs(300)).await;
        "done"
    };
    let app = behind(&limiter, Router::new().route("/", route(slow)));
    let request = tokio::spawn({
        let app = app.clone();
        async move { get(&app, "/").await.status }
    });
    tokio::task::yield_now().await;
    // The lease lasts for a minute.
    pass_time(&clock, 290).await;
    assert_eq!(free(&limiter).await, 0);
    assert_eq!(get(&app, "/").await.status, 429);
    pass_time(&clock, 15).await;
    assert_eq!(request.await.unwrap(), 200);
    assert_eq!(free(&limiter).await, 1);
}

#[tokio::test(start_paused = true)]
async fn slow_body_renews_its_permit() {
    let clock = clock();
    let limiter = Limiter::builder().rule(rule("reports").concurrency(1)).build_with_clock(clock.clone()).unwrap();
    let (app, mut senders) = streaming(&limiter);
    let reading = tokio::spawn({
        let app = app.clone();
        async move { begin(&app).await.into_body().collect().await.unwrap().to_bytes() }
    });
    let sender = senders.recv().await.unwrap();
    pass_time(&clock, 290).await;
    assert_eq!(free(&limiter).await, 0);
    sender.send(Ok(Bytes::from_static(b"late"))).unwrap();
    drop(sender);
    assert_eq!(&*reading.await.unwrap(), b"late");
    assert_eq!(free(&limiter).await, 1);
}

/// Many requests at once on a real server: concurrency never exceeds the limit, and in the end all permits are free.
#[tokio::test(flavor = "multi_thread")]
async fn concurrency_never_exceeds_the_limit() {
    let limiter = Limiter::builder().rule(rule("reports").concurrency(3)).build().unwrap();
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let handler = {
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        move || async move {
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            "report"
        }
    };
    let server = Server::start(behind(&limiter, Router::new().route("/", route(handler)))).await;
    let clients = (0..16).map(|_| {
        let address = server.address;
        tokio::spawn(async move {
            let mut client = Client::connect(address).await;
            for _ in 0..60 {
                assert!(matches!(client.get("/").await.status, 200 | 429));
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
    for _ in 0..2_000 {
        if free(&limiter).await == 3 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("a permit was lost");
}

/// The policy needs the client's address, which the server provides.
#[tokio::test]
async fn permits_are_counted_by_key() {
    let limiter: App =
        Limiter::builder().rule(rule("each").per("client_ip").concurrency(1)).build_with_clock(clock()).unwrap();
    let (app, mut senders) = streaming(&limiter);
    let from = |peer: &str| {
        let mut request = HttpRequest::get("/").body(Body::empty()).unwrap();
        request.extensions_mut().insert(PeerAddress(peer.parse().unwrap()));
        app.clone().oneshot(request)
    };
    let first = from("198.51.100.1").await.unwrap();
    let _sender = senders.recv().await.unwrap();
    assert_eq!(first.status(), 200);
    assert_eq!(from("198.51.100.1").await.unwrap().status(), 429);
    assert_eq!(from("198.51.100.2").await.unwrap().status(), 200);
}
