//! `tollgate demo`: a service with generated traffic.

use std::time::{Duration, Instant};

use crate::client::request;
use crate::running::{Running, output, tollgate};

const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn demo_shows_traffic_and_stops_cleanly() {
    let mut command = tollgate(&["demo", "--http", ":0", "--admin", ":0"]);
    // Settings of a service that would keep the traffic out, or hide it.
    command.env("TOLLGATE_POLICY", "/nowhere.yaml").env("TOLLGATE_ACCESS_TOKEN", "a-token-of-the-callers");
    let mut demo = Running::start(command);
    let invitation = demo.any_line();
    let expected = format!("tollgate: generated traffic runs: open http://{}/ in a browser; Ctrl-C stops", demo.admin);
    assert_eq!(invitation, expected);
    let refusals = || {
        let top = request(demo.admin, "GET", "/api/top", "").json();
        top["rules"][0]["refusals"].as_u64().unwrap()
    };
    let begun = Instant::now();
    while refusals() == 0 {
        assert!(begun.elapsed() < TIMEOUT, "no request is refused");
        std::thread::sleep(Duration::from_millis(50));
    }
    demo.signal("TERM");
    // The log has no line for each refused request.
    assert_eq!(demo.any_line(), "tollgate: stopping: answering requests in flight");
    assert_eq!(demo.any_line(), "tollgate: stopped");
    assert_eq!(demo.exit_code(), Some(0));
}

#[test]
fn demo_is_for_this_machine_only() {
    let refused = output(&["demo", "--http", "0.0.0.0:0"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert_eq!(
        said,
        "error: the demo needs a loopback address for --http\nhint: to serve other machines, use `tollgate serve`\n"
    );
}
