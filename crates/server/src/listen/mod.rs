//! Accepting connections: everything that all front ends share.
//!
//! A front end is a function of one connection. It receives an `AcceptedConnection`, whose stream may be encrypted,
//! and a channel that signals shutdown.

mod accept;
mod activity;
mod address_shares;
mod connection_limits;
mod connection_metrics;
mod connection_slots;
mod deadline;
mod stream;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use accept::{AcceptedConnection, ListenerConfig, StopFlag, accept, until_stopped};
pub(crate) use activity::{Activity, ResponseInProgress};
pub(crate) use address_shares::{
    AddressShare, AddressShareLimits, AddressShares, CallCapacity, Reservation, Resource, WorkTurn,
};
pub use connection_limits::ConnectionLimits;
pub(crate) use connection_metrics::{ConnectionMetrics, ListenerMetrics, ShareMetrics};
pub use connection_slots::usable as usable_descriptors;
pub(crate) use connection_slots::{Descriptors, ListenerUse, counted_address};
pub(crate) use deadline::{IdleTimer, WithDeadline};
pub(crate) use stream::{ActivityStream, Encryption, HTTP_1_1};
#[cfg(feature = "tls")]
pub use tls::{Reloaded, Tls, TlsError, TlsFiles};
