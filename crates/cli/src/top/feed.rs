//! What a service sends, read by a thread.

use std::io;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;
use crate::remote::{HttpCall, RateLists, ServiceConnection, ServiceStatus};

/// The pause before a lost connection is opened again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// What the view is to show.
#[derive(Clone, Debug)]
pub(super) enum FeedEvent {
    /// The rates of the last minute.
    History(RateLists),
    Status(Box<ServiceStatus>),
    /// The limits of the rules, by name.
    Limits(Vec<(String, String)>),
    /// The service cannot be reached, for this reason.
    Lost(String),
}

#[derive(Deserialize)]
struct HistoryData {
    decisions: RateLists,
}

/// Reads the live stream, and connects again when it ends, until the receiver is gone.
pub(super) fn start(connection: ServiceConnection, events: Sender<FeedEvent>) {
    thread::spawn(move || {
        loop {
            let reason = match read(&connection, &events) {
                Ok(()) => "the service has closed the stream".to_owned(),
                Err(error) => error.to_string(),
            };
            if events.send(FeedEvent::Lost(reason)).is_err() {
                return;
            }
            thread::sleep(RECONNECT_PAUSE);
        }
    });
}

/// Reads the stream until it ends. The limits are read again after each change of the policy.
fn read(connection: &ServiceConnection, events: &Sender<FeedEvent>) -> io::Result<()> {
    let (mut name, mut fingerprint) = (String::new(), String::new());
    connection.lines("/api/live", |line| {
        if let Some(event) = line.strip_prefix("event: ") {
            event.clone_into(&mut name);
        }
        let Some(event) = line.strip_prefix("data: ").and_then(|data| parsed(&name, data)) else { return true };
        if let FeedEvent::Status(status) = &event
            && status.policy.fingerprint != fingerprint
            && let Ok(rules) = connection.json(HttpCall::get("/api/rules"))
        {
            status.policy.fingerprint.clone_into(&mut fingerprint);
            // The receiver is gone when the program ends.
            let _ = events.send(FeedEvent::Limits(limits(&rules)));
        }
        events.send(event).is_ok()
    })
}

/// Parses an event; `None` if this program does not know it.
fn parsed(name: &str, data: &str) -> Option<FeedEvent> {
    match name {
        "history" => serde_json::from_str::<HistoryData>(data).ok().map(|data| FeedEvent::History(data.decisions)),
        "status" => serde_json::from_str(data).ok().map(FeedEvent::Status),
        _ => None,
    }
}

/// Returns the first limit of each rule, and whether there are more.
fn limits(answer: &Value) -> Vec<(String, String)> {
    let rules = answer["rules"].as_array().into_iter().flatten();
    let limit = |rule: &Value| {
        let limits = rule["grants"].as_array().into_iter().flatten().flat_map(|grant| {
            let limits = grant["limits"].as_array().into_iter().flatten();
            limits.filter_map(|limit| Some(limit["limit"].as_str()?.to_owned())).collect::<Vec<_>>()
        });
        let limits: Vec<String> = limits.collect();
        let shadow = if rule["shadow"] == true { " (shadow)" } else { "" };
        match &limits[..] {
            [] if rule["deny"] == true => format!("denies{shadow}"),
            [] => format!("unlimited{shadow}"),
            [limit] => format!("{limit}{shadow}"),
            [limit, more @ ..] => format!("{limit} and {} more{shadow}", more.len()),
        }
    };
    rules.filter_map(|rule| Some((rule["rule"].as_str()?.to_owned(), limit(rule)))).collect()
}

/// Ends the program on SIGTERM and SIGHUP, after the terminal is restored. (Ctrl-C is a key there.) Not in the loop that
/// reads keys: without a terminal, a read does not return.
pub(super) fn exit_on_signal() {
    thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(end_signal())?;
        ratatui::restore();
        std::process::exit(Exit::Done as i32);
        #[allow(unreachable_code, reason = "gives the closure its type")]
        io::Result::Ok(())
    });
}

async fn end_signal() -> io::Result<()> {
    let (mut terminate, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_shown_with_their_limits() {
        let limit = |limit: &str| json!({ "limit": limit });
        let answer = json!({ "rules": [
            { "rule": "one", "grants": [{ "limits": [limit("60/min")] }] },
            { "rule": "two", "shadow": true, "grants": [{ "limits": [limit("1/s")] }, { "limits": [limit("2/s")] }] },
            { "rule": "trap", "deny": true, "grants": [] },
            { "rule": "free", "grants": [{ "unlimited": true, "limits": [] }] },
        ] });
        let expected =
            [("one", "60/min"), ("two", "1/s and 1 more (shadow)"), ("trap", "denies"), ("free", "unlimited")];
        assert_eq!(limits(&answer), expected.map(|(rule, limit)| (rule.to_owned(), limit.to_owned())));
    }

    #[test]
    fn unknown_events_are_ignored() {
        assert!(parsed("status", "{}").is_none());
        assert!(parsed("later", "{}").is_none());
        let history = parsed("history", r#"{"decisions":{"allowed":[1],"refused":[2],"would_refuse":[]},"rules":{}}"#);
        assert!(matches!(history, Some(FeedEvent::History(lists)) if lists.allowed == [1] && lists.refused == [2]));
    }
}
