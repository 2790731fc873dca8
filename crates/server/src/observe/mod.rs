//! Observation of decisions: the log, events, and top clients.
//!
//! The [`Observer`] records every decision on the thread that made it (`decisions`). It stores tables of bounded size,
//! in two windows each (`frequent_clients`), one set for each rule and thread (`rule_clients`); lists and metrics
//! merge them (`tally`). A request that deserves a line becomes an `event`, if the second has a line left
//! (`line_budget`); a separate thread writes it (`log`). Clients appear only under the ID that the settings select
//! (`client_names`).

mod clients;
mod decisions;
mod event;
mod feed;
mod log;
mod metrics;
mod most_refused;
mod observer;
mod periodic;
mod refused_call;
mod timestamp;
mod violation;

pub use clients::client_names::{IdentityFormat, LogKeyError};
pub use clients::tally::FrequentClient;
pub use event::{AdminChange, Burst, ChangeKind, Event, LeftOut, Level, Notice, RuleNotice, Violation};
pub use feed::{Delivery, EventSubscription};
pub use log::{EventFormat, EventLog};
pub(crate) use most_refused::RefusedClient;
pub use observer::{Observer, ObserverSettings};
pub use refused_call::{CallRefusal, RefusedCall};
pub use timestamp::Timestamp;
