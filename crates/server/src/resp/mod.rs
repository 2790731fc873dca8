//! The RESP front end: the only part that knows what Redis clients speak.
//!
//! `CL.THROTTLE` is answered as redis-cell answers it, `TOLL.CHECK` decides under
//! the policy, and what clients say when they connect is answered as Redis does.

mod commands;
mod connection;
mod inline;
mod parser;
mod reply;
mod session;

pub use connection::serve_connection;
pub(crate) use connection::serve_with_share;
pub use parser::{Arguments, Found, Parser, ProtocolError};
pub use session::{RespGate, RespLimits};
