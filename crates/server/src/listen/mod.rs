//! From a socket that accepts to one connection: everything that is the same for every front end.
//!
//! A front end is a function of one connection. It is given a `Connection` whose stream
//! may be encrypted or not, and learns from a channel that the service stops.

mod accept;
mod activity;
mod connection_limits;
mod connection_metrics;
mod connection_slots;
mod deadline;
mod shares;
mod stream;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use accept::{Connection, Granted, StopFlag, accept, until_stopped};
pub(crate) use activity::{Activity, Answering};
pub use connection_limits::ConnectionLimits;
pub(crate) use connection_metrics::{ConnectionMetrics, ListenerMetrics, ShareMetrics};
pub use connection_slots::usable as usable_descriptors;
pub(crate) use connection_slots::{Descriptors, For, counted_as};
pub(crate) use deadline::{IdleTimer, WithDeadline};
pub(crate) use shares::{Reservation, Resource, Room, Share, ShareLimits, Shares, Turn};
pub(crate) use stream::{ActivityStream, Encryption};
#[cfg(feature = "tls")]
pub use tls::{Reloaded, Tls, TlsError, TlsFiles};
