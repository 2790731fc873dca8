//! The HTTP front end responds to any input with a decision or an error, in JSON. The fast path and the strict parser
//! read a body in the same way.
//!
//! The first byte chooses the route. The rest is the body, or for forward-auth lines: the method, the path, then
//! `Name: value`.

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
        None => match forward_auth(rest) {
            Some(request) => request,
            None => return,
        },
    };
    let is_check = request.uri().path() == "/v1/check";
    // A gateway may request another status for refusals; the body has the original one.
    let is_replaced = request.uri().query().is_some_and(|query| query.contains("deny_status"));
    let (status, body) = fuzzing::http(&engine::ENGINE, request);
    assert!(is_replaced || [200, 400, 403, 404, 413, 429].contains(&status), "{status}");
    if body.is_empty() {
        return;
    }
    let response: Value = serde_json::from_slice(&body).expect("JSON");
    if status != 200 {
        assert!(response["status"] == status || is_replaced, "{response}");
    } else if is_check {
        assert!(response["allowed"].is_boolean());
        assert!(response["remaining"].as_u64() <= response["limit"].as_u64());
    }
});

/// Returns a forward-auth request, if the bytes are valid in HTTP.
fn forward_auth(bytes: &[u8]) -> Option<Request<Vec<u8>>> {
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
