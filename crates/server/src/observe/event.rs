use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;

use super::refused_call::RefusedCall;
use super::timestamp::Timestamp;

/// An event for operators: a line of the log, and an item for [subscribers](super::Observer::subscribe).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A request exceeded a limit.
    Violation(Violation),
    /// A client sends far more requests than before.
    Burst(Burst),
    /// Violations without a line.
    LeftOut(LeftOut),
    /// An active rule, logged at startup.
    Rule(RuleNotice),
    /// A message of the service.
    Notice(Notice),
    /// A change through the admin API, or an attempt.
    Change(AdminChange),
    /// A call that a listener refused.
    RefusedCall(RefusedCall),
}

/// A request that exceeded a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// When.
    pub time: Timestamp,
    /// The rule that decided; none for a deny list or a caller-supplied limit.
    pub rule: Option<Arc<str>>,
    /// The action: reject, block, deny, warn or delay.
    pub action: &'static str,
    /// Whether the rule is a shadow rule: the request would have been refused.
    pub shadow: bool,
    /// The largest value that `remaining` can have.
    pub limit: Option<u64>,
    /// The algorithm of the rule.
    pub algorithm: Option<&'static str>,
    /// The front end.
    pub front_end: &'static str,
    /// The method, if it is a standard one.
    pub method: Option<&'static str>,
    /// The pattern that the path matches. The path itself may identify a client.
    pub route: Option<Arc<str>>,
    /// When to retry, rounded up; none if unknown or never.
    pub retry_after_ms: Option<u64>,
    /// The client ID.
    pub client: Option<Arc<str>>,
    /// The source of the decision, if it is not exact counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'static str>,
}

/// A client that sends far more requests than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Burst {
    /// When it was detected.
    pub time: Timestamp,
    /// The rule under which it was counted.
    pub rule: Arc<str>,
    /// The client ID.
    pub client: Arc<str>,
    /// The approximate number of requests in the last window.
    pub requests: u64,
    /// The approximate average before.
    pub usual: u64,
    /// The length of a window.
    pub window_s: u64,
}

/// Violations without a line since the last summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The time of the summary.
    pub time: Timestamp,
    /// The number of violations.
    pub violations: u64,
    /// The number for each rule, the largest first; only the first few.
    pub by_rule: Vec<(Arc<str>, u64)>,
    /// Lines dropped since the start because stderr was not read.
    pub lines_dropped: u64,
}

/// An active rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleNotice {
    /// When it became active.
    pub time: Timestamp,
    /// Its name.
    pub rule: String,
    /// Its algorithms; several if grants differ.
    pub algorithms: Vec<String>,
    /// Its guarantees as text.
    pub promise: String,
}

/// A message of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// When.
    pub time: Timestamp,
    /// The severity.
    pub level: Level,
    /// The message.
    pub message: String,
}

/// A change through the admin API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdminChange {
    /// When.
    pub time: Timestamp,
    /// The kind of change.
    pub change: ChangeKind,
    /// The rule, if the change concerns one.
    pub rule: Option<String>,
    /// The client ID of the key.
    pub client: Option<Arc<str>>,
    /// The limit that was set.
    pub limit: Option<String>,
    /// Whether it succeeded.
    pub done: bool,
    /// The address of the caller.
    pub from: IpAddr,
}

/// The kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A key was reset.
    Reset,
    /// The limit of a key was overridden.
    Override,
    /// An override was ended.
    EndOverride,
    /// The policy was reloaded.
    Reload,
}

impl ChangeKind {
    /// Returns the name used in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ChangeKind::Reset => "reset",
            ChangeKind::Override => "override",
            ChangeKind::EndOverride => "end_override",
            ChangeKind::Reload => "reload",
        }
    }
}

/// The severity of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Information.
    Info,
    /// A likely mistake.
    Warning,
    /// A failure.
    Error,
}

impl Level {
    /// Returns the name used in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

impl Event {
    /// Returns the type of the event, as in its JSON.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Event::Violation(_) => "violation",
            Event::Burst(_) => "burst",
            Event::LeftOut(_) => "left_out",
            Event::Rule(_) => "rule",
            Event::Notice(_) => "notice",
            Event::Change(_) => "change",
            Event::RefusedCall(_) => "refused_call",
        }
    }

    /// Returns the event as one line of JSON, without a line end.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Serialization fails only for maps with non-string keys, and there are none.
        serde_json::to_string(self).unwrap_or_default()
    }
}
