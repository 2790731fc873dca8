//! The RESP front end: the only part that knows what Redis clients speak.
//!
//! `CL.THROTTLE` is answered as redis-cell answers it, `TOLL.CHECK` decides under
//! the policy, and what clients say when they connect is answered as Redis does.

mod arguments;
mod begun_command;
mod commands;
mod connection;
mod gate;
mod inline;
mod integer;
mod limits;
mod parser;
mod reply;
mod session;
mod short_lines;

pub use arguments::Arguments;
pub use connection::serve_connection;
pub(crate) use connection::serve_with_share;
pub use gate::RespGate;
pub use limits::RespLimits;
pub use parser::{Found, Parser, ProtocolError};
