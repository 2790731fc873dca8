use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;

use super::refused_call::RefusedCall;
use super::timestamp::Timestamp;

/// Something that an operator may want to know. It is a line of the log, and
/// what somebody who [subscribes](super::Observer::subscribe) is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A request met its limit.
    Violation(Violation),
    /// A client asks far more often than it used to.
    Burst(Burst),
    /// Violations that had no line of their own.
    LeftOut(LeftOut),
    /// A rule that holds, told at the start.
    Rule(RuleInForce),
    /// What the service says of itself.
    Notice(Notice),
    /// An operator changed something, or tried to.
    Change(Change),
    /// Somebody was not let in to the admin interface.
    RefusedCall(RefusedCall),
}

/// A request that met its limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// When.
    pub time: Timestamp,
    /// The rule that decided; none where a list or a caller's own limit did.
    pub rule: Option<Arc<str>>,
    /// What became of the request: reject, block, deny, warn or delay.
    pub action: &'static str,
    /// Whether the rule is only watched: the request was not refused by it, but would have been.
    pub shadow: bool,
    /// The most that can remain under the rule.
    pub limit: Option<u64>,
    /// How the rule counts.
    pub algorithm: Option<&'static str>,
    /// By which way it came.
    pub front_end: &'static str,
    /// The method, if it is one that is known.
    pub method: Option<&'static str>,
    /// The pattern that the path matches. The path itself may name somebody.
    pub route: Option<Arc<str>>,
    /// When to come back, rounded up; none if nobody knows, or never.
    pub retry_after_ms: Option<u64>,
    /// The client, as the settings want it told.
    pub client: Option<Arc<str>>,
    /// Where the answer comes from, if not from exact counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'static str>,
}

/// A client that asks far more often than it used to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Burst {
    /// When it was noticed.
    pub time: Timestamp,
    /// The rule under which it was counted.
    pub rule: Arc<str>,
    /// The client, as the settings want it told.
    pub client: Arc<str>,
    /// About how many requests there were in the last window.
    pub requests: u64,
    /// About how many there used to be.
    pub usual: u64,
    /// How long a window is.
    pub window_s: u64,
}

/// Violations that had no line of their own, lately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// When they were added up.
    pub time: Timestamp,
    /// How many.
    pub violations: u64,
    /// How many of each rule, beginning with the most; only the first few.
    pub by_rule: Vec<(Arc<str>, u64)>,
    /// Lines that were lost because nobody took them, since the start.
    pub lines_dropped: u64,
}

/// A rule that holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleInForce {
    /// When it was put in force.
    pub time: Timestamp,
    /// Its name.
    pub rule: String,
    /// How it counts; several where grants differ.
    pub algorithms: Vec<String>,
    /// What it promises, in words.
    pub promise: String,
}

/// What the service says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// When.
    pub time: Timestamp,
    /// How grave it is.
    pub level: Level,
    /// What is said.
    pub message: String,
}

/// What an operator did over the admin interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// When.
    pub time: Timestamp,
    /// What it was.
    pub change: ChangeKind,
    /// The rule, where one was meant.
    pub rule: Option<String>,
    /// The client whose key was meant, as the settings want it told.
    pub client: Option<Arc<str>>,
    /// The limit that was set.
    pub limit: Option<String>,
    /// Whether it was done.
    pub done: bool,
    /// Where the operator's call came from.
    pub from: IpAddr,
}

/// What operators can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A key was made as if untouched.
    Reset,
    /// A key was given another limit for a time.
    Override,
    /// Such a limit was ended.
    EndOverride,
    /// The policy was read again.
    Reload,
}

impl ChangeKind {
    /// Its name in the log.
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

/// How grave something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know.
    Info,
    /// Likely a mistake.
    Warning,
    /// It did not work.
    Error,
}

impl Level {
    /// Its name in the log.
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
    /// The kind of event, as its JSON says it.
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

    /// It as one line of JSON, without a line end.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Nothing in it is a map whose keys are no text, which is all that could fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}
