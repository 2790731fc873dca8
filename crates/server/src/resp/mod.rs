//! The RESP front end: the only part that depends on the Redis protocol.
//!
//! `CL.THROTTLE` is compatible with redis-cell, `TOLL.CHECK` decides under the policy, and connection commands
//! have the replies of Redis.

mod commands;
mod connection;
mod inline;
mod parser;
mod reply;
mod session;

pub use connection::serve_connection;
pub(crate) use connection::serve_with_share;
pub use parser::{Parsed, Parser, RespArguments, RespError};
pub use session::{RespAuth, RespLimits};
