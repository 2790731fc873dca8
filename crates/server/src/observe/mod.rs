//! What the service tells of its decisions: a log, events, and who stands out.
//!
//! The [`Observer`] sees every decision once it is made, on the thread that
//! made it. What it keeps there are tables of bounded size (`frequent_clients`,
//! with two `windows` each, one set for each rule and thread: `shards`); who
//! asks for a list or for metrics puts them together (`tally`). A request that
//! deserves a line becomes an `event`, if the second has one left
//! (`line_budget`); a thread of its own writes it down (`log`). Nobody is told
//! who a client is, only its name as the settings want it (`client_names`).

mod bursts;
mod client_names;
mod event;
mod event_text;
mod feed;
mod few_a_second;
mod frequent_clients;
mod hmac;
mod line_budget;
mod log;
mod log_key;
mod metrics;
mod observer;
mod periodic;
mod refused_call;
mod rule_clients;
mod sample;
mod seeing;
mod shards;
mod tally;
mod timestamp;
mod uncounted_notices;
mod violation;
mod windows;

pub use client_names::Identities;
pub use event::{Burst, Change, ChangeKind, Event, LeftOut, Level, Notice, RuleInForce, Violation};
pub use feed::{Delivery, Subscription};
pub use log::{Log, LogFormat};
pub use log_key::LogKeyError;
pub(crate) use metrics::ObserverMetrics;
pub use observer::{Observer, ObserverSettings};
pub use refused_call::{RefusedCall, WhyRefused};
pub use tally::FrequentClient;
pub use timestamp::Timestamp;
