//! Generated requests in real time.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until};
use tollgate_workbench::traffic::{GeneratedRequest, Population};

const SECOND_NS: u64 = 1_000_000_000;

/// The clients of the demo. The requests of ten minutes take about a megabyte.
const POPULATION: Population = Population {
    seed: 1,
    poisson_clients: 20,
    on_off_clients: 20,
    scrapers: 1,
    stuffers: 1,
    start_ns: 0,
    duration_s: 660,
};

/// After this time each client of a population sends: they begin one by one.
const ALL_SEND_AFTER_NS: u64 = 60 * SECOND_NS;

/// The pause before a lost connection is opened again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Sends requests to the HTTP listener of a service, until the future is dropped.
pub(crate) async fn send_traffic(http: SocketAddr) -> Infallible {
    let mut replay = Replay::default();
    loop {
        if let Ok(mut connection) = TcpStream::connect(http).await {
            let (mut responses, mut requests) = connection.split();
            let mut ignored = [0; 4_096];
            let send = async {
                loop {
                    requests.write_all(replay.next().await.as_bytes()).await?;
                }
            };
            let read = async {
                while responses.read(&mut ignored).await? > 0 {}
                Ok(())
            };
            let _: std::io::Result<()> = tokio::select! { ended = send => ended, ended = read => ended };
        }
        sleep(RECONNECT_PAUSE).await;
    }
}

/// The requests of one population after the other.
#[derive(Default)]
struct Replay {
    populations: u64,
    left: std::vec::IntoIter<GeneratedRequest>,
    began: Option<Instant>,
}

impl Replay {
    /// Returns the next request when it is due.
    async fn next(&mut self) -> String {
        let request = loop {
            match self.left.next() {
                Some(request) if request.time_ns >= ALL_SEND_AFTER_NS => break request,
                Some(_) => {}
                None => self.begin(),
            }
        };
        let began = self.began.unwrap_or_else(Instant::now);
        sleep_until(began + Duration::from_nanos(request.time_ns - ALL_SEND_AFTER_NS)).await;
        http_request(&request)
    }

    fn begin(&mut self) {
        self.populations += 1;
        self.left = Population { seed: self.populations, ..POPULATION }.requests().into_iter();
        self.began = Some(Instant::now());
    }
}

/// Returns the call of `/v1/check` for a request.
fn http_request(request: &GeneratedRequest) -> String {
    let body = json!({ "ip": request.client_ip, "method": request.method, "path": request.path }).to_string();
    format!("POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_come_at_their_times_from_all_clients() {
        let (mut replay, began) = (Replay::default(), Instant::now());
        let mut requests = Vec::new();
        while began.elapsed() < Duration::from_secs(60) {
            requests.push(replay.next().await);
        }
        // Twenty a second from the scraper, three from the stuffer, and a few from the others.
        assert!((1_500..2_500).contains(&requests.len()), "{}", requests.len());
        let logins = requests.iter().filter(|request| request.contains("/auth/login")).count();
        assert!((120..300).contains(&logins), "{logins}");
        // The next population follows without a pause.
        while began.elapsed() < Duration::from_secs(660) {
            replay.next().await;
        }
        assert_eq!(replay.populations, 2);
    }
}
