//! From a socket that accepts to one connection: everything that is the same for every front end.
//!
//! A front end is a function of one connection. It is given a `Connection` whose stream
//! may be encrypted or not, and learns from a channel that the service stops.

mod accept;
mod connection_metrics;
mod limits;
mod stop_flag;
mod stream;
mod timeouts;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use accept::{Accepting, Connection, accept};
pub(crate) use connection_metrics::{ConnectionMetrics, ListenerMetrics, ShareMetrics};
pub use limits::connection_limits::ConnectionLimits;
pub(crate) use limits::counted_as::counted_as;
pub use limits::descriptors::usable as usable_descriptors;
pub(crate) use limits::descriptors::{Descriptors, For};
pub(crate) use limits::shares::{Reservation, Room, Share, ShareLimits, Shares, Turn};
pub(crate) use stop_flag::StopFlag;
pub(crate) use stream::Encryption;
pub(crate) use timeouts::activity::{Activity, Answering};
pub(crate) use timeouts::activity_stream::ActivityStream;
pub(crate) use timeouts::idle_timer::IdleTimer;
pub(crate) use timeouts::with_deadline::WithDeadline;
#[cfg(feature = "tls")]
pub use tls::{Reloaded, Tls, TlsError, TlsFiles};
