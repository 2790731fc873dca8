//! Values of header fields that no server should send. A request after them is sent in bounded time, and none too
//! early.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Response};
use tokio::time::Instant;
use tollgate::client::ClientLayer;

use crate::server::{Body, Client, Server, reply};

const URL: &str = "http://one.example/";
const CEILING: Duration = Duration::from_secs(60);

const NAMES: [&str; 8] = [
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "ratelimit-reset",
    "date",
];

const VALUES: [&[u8]; 24] = [
    b"",
    b"0",
    b"-1",
    b"-99999999999999999999",
    b"1",
    b"18446744073709551615",
    b"18446744073709551616",
    b"999999999999999999999999999999999999999999",
    b"0.000000000000000000001",
    b"1e308",
    b"NaN",
    b"\xff\xfe\xfd",
    b"Thu, 01 Jan 1970 00:00:00 GMT",
    b"Mon, 01 Jan 0001 00:00:00 GMT",
    b"Fri, 31 Dec 9999 23:59:59 GMT",
    b"Fri, 99 Foo 12345 99:99:99 GMT",
    b"\"a\";r=0;t=999999999999999",
    b"\"a\";r=0;t=-5",
    b"\"a\";r=0",
    b"\"a\";r=999999999999999;t=0",
    b"\"a\";q=0;w=0",
    b"\"a\";q=1;w=999999999999999",
    b"\"a\";q=999999999999999;w=1",
    b"\"unterminated;r=1,,,;;;===",
];

/// A server that answers 100 times with these fields, each of them twice.
fn hostile(status: u16, fields: Vec<(&'static str, &'static [u8])>) -> Server {
    Server::new(move |number, _| {
        if number >= 100 {
            return reply(200, &[]);
        }
        let mut response = Response::new(Body::default());
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
        for (name, value) in &fields {
            let (name, value) = (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
            response.headers_mut().append(name.clone(), value.clone());
            response.headers_mut().append(name, value);
        }
        Ok(response)
    })
}

/// Sends until two requests have arrived, for at most the ceiling and its random part.
async fn second_arrival(server: &Server) -> Duration {
    let layer = ClientLayer::new().retries(0).max_wait(2 * CEILING).longest_pause(CEILING);
    let client = Client::new(&layer, server);
    let started = Instant::now();
    while server.arrived().len() < 2 {
        let _ = client.get(URL).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(started.elapsed() < CEILING * 2, "the client stalls");
    }
    Duration::from_millis(server.arrived_ms()[1])
}

#[tokio::test(start_paused = true)]
async fn no_value_of_any_field_stalls_the_client() {
    for status in [200, 429] {
        for name in NAMES {
            for value in VALUES {
                second_arrival(&hostile(status, vec![(name, value)])).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_combination_of_limit_and_policy_stalls_the_client() {
    for state in VALUES {
        for policy in VALUES {
            second_arrival(&hostile(200, vec![("ratelimit", state), ("ratelimit-policy", policy)])).await;
            let older =
                vec![("x-ratelimit-remaining", &b"0"[..]), ("x-ratelimit-limit", state), ("x-ratelimit-reset", policy)];
            second_arrival(&hostile(429, older)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_field_shortens_a_pause() {
    for name in NAMES {
        for value in VALUES {
            let server = hostile(429, vec![("retry-after", b"20"), (name, value)]);
            let second = second_arrival(&server).await;
            assert!(second >= Duration::from_secs(20), "{name}: {value:?}: {second:?}");
        }
    }
}
