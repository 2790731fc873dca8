//! What the service tells of its decisions: a log, events, and who stands out.
//!
//! The [`Observer`] sees every decision once it is made, on the thread that
//! made it (`seeing`). What it keeps there are tables of bounded size, in two windows
//! each (`frequent_clients`), one set for each rule and thread (`rule_clients`); who
//! asks for a list or for metrics puts them together (`tally`). A request that
//! deserves a line becomes an `event`, if the second has one left
//! (`line_budget`); a thread of its own writes it down (`log`). Nobody is told
//! who a client is, only its name as the settings want it (`client_names`).

mod clients;
mod event;
mod feed;
mod log;
mod metrics;
mod observer;
mod periodic;
mod refused_call;
mod seeing;
mod timestamp;
mod violation;

pub use clients::client_names::{Identities, LogKeyError};
pub use clients::tally::FrequentClient;
pub use event::{Burst, Change, ChangeKind, Event, LeftOut, Level, Notice, RuleInForce, Violation};
pub use feed::{Delivery, Subscription};
pub use log::{Log, LogFormat};
pub use observer::{Observer, ObserverSettings};
pub use refused_call::{RefusedCall, WhyRefused};
pub use timestamp::Timestamp;
