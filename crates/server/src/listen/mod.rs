//! From a socket that accepts to one connection: everything that is the same for every front end.
//!
//! A front end is a function of one connection. It is given a `Visitor` whose stream
//! may be encrypted or not, and learns from a channel that the service stops.

mod accept;
mod activity;
mod connection_limits;
mod connection_metrics;
mod counted_as;
mod descriptors;
mod places;
mod shares;
mod silence;
mod stop_flag;
mod stream;
#[cfg(feature = "tls")]
mod tls;
mod watched;
mod with_watch;

pub(crate) use accept::{Accepting, Visitor, accept};
pub(crate) use activity::{Activity, Answering, UnderWay};
pub use connection_limits::ConnectionLimits;
pub(crate) use connection_metrics::{ConnectionMetrics, ListenerMetrics, ShareMetrics};
pub(crate) use counted_as::counted_as;
pub use descriptors::usable as usable_descriptors;
pub(crate) use descriptors::{Descriptors, For};
pub(crate) use shares::{Reservation, Room, Share, ShareLimits, Shares, Turn};
pub(crate) use silence::{Heard, Silence};
pub(crate) use stop_flag::StopFlag;
pub(crate) use stream::Encryption;
#[cfg(feature = "tls")]
pub use tls::{Reloaded, Tls, TlsError, TlsFiles};
pub(crate) use watched::Watched;
pub(crate) use with_watch::WithWatch;
