//! Serves the assistant API on 127.0.0.1:3000, and writes a digest every minute.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum_app::App;
use tokio::net::TcpListener;
use tollgate::{RealClock, TokioTimer};

#[tokio::main]
#[expect(clippy::print_stderr, reason = "the program's log")]
async fn main() -> Result<(), Box<dyn Error>> {
    let app = App::new(RealClock::new())?;
    for warning in &*app.limiter().warnings() {
        eprintln!("policy: {}: {warning}", warning.code);
    }

    // The limiter sets the pace of the loop: each digest waits for its turn.
    let jobs = app.clone();
    tokio::spawn(async move {
        loop {
            match jobs.digest(Duration::from_secs(300), TokioTimer).await {
                Ok(digest) => eprintln!("job: wrote {digest}"),
                Err(refused) => eprintln!("job: {refused}"),
            }
        }
    });

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    // The limits by address need the address of the peer.
    axum::serve(listener, app.router().into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
