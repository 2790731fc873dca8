//! Whatever is sent to the HTTP front end, the answer is a decision or says what
//! is wrong, in JSON; and a body means the same on both roads on which it is read.
//!
//! The first byte chooses the route; the rest is the body, or for forward-auth
//! lines: the method, the path, then `Name: value`.

#![no_main]

mod engine;

use http::Request;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tollgate_server::fuzzing;

const ROUTES: [&str; 5] = ["/v1/check", "/v1/check/batch", "/v1/refund", "/v1/settle", "/v1/release"];

fuzz_target!(|data: &[u8]| {
    let Some((&route, rest)) = data.split_first() else { return };
    let request = match ROUTES.get(usize::from(route % 6)) {
        Some(path) => Request::post(*path).body(rest.to_vec()).expect("a request"),
        None => match described(rest) {
            Some(request) => request,
            None => return,
        },
    };
    let is_check = request.uri().path() == "/v1/check";
    // A gateway that can only tell some status is told that one, and the body tells the truth.
    let is_replaced = request.uri().query().is_some_and(|query| query.contains("deny_status"));
    let (status, body) = fuzzing::http(&engine::ENGINE, request);
    assert!(is_replaced || [200, 400, 403, 404, 413, 429].contains(&status), "{status}");
    if body.is_empty() {
        return;
    }
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    if status != 200 {
        assert!(answer["status"] == status || is_replaced, "{answer}");
    } else if is_check {
        assert!(answer["allowed"].is_boolean());
        assert!(answer["remaining"].as_u64() <= answer["limit"].as_u64());
    }
});

/// A request that describes another, where HTTP can carry it.
fn described(bytes: &[u8]) -> Option<Request<Vec<u8>>> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let (method, query) = (lines.next()?, lines.next()?);
    let target = [b"/v1/forward-auth?", query].concat();
    let mut request = Request::builder().method(method).uri(target.as_slice());
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    request.body(Vec::new()).ok()
}
