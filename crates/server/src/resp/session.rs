use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::commands::QuotaMemo;
use super::reply::Protocol;
use crate::access::AccessToken;
use crate::engine::Engine;
use crate::observe::CallRefusal;
use crate::server::Listener;
use crate::throttle::ThrottleCounts;

/// The state of a connection.
pub(super) struct Session {
    /// The ID of the connection in this process.
    pub(super) id: u64,
    pub(super) protocol: Protocol,
    /// The client name; empty if none was set.
    pub(super) name: Vec<u8>,
    /// Whether the connection ends after the pending replies.
    pub(super) is_ending: bool,
    pub(super) limits: RespLimits,
    /// The required authentication, if any.
    pub(super) auth: Option<RespAuth>,
    /// Whether the client is authenticated.
    pub(super) is_authenticated: bool,
    /// Decisions of `CL.THROTTLE` that are not counted yet.
    pub(super) throttled: ThrottleCounts,
    /// The quota of the last `CL.THROTTLE`, which is nearly always that of the next.
    pub(super) last_quota: Option<QuotaMemo>,
}

impl Session {
    pub(super) fn new(limits: RespLimits, auth: Option<RespAuth>) -> Session {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
        Session {
            id: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
            protocol: Protocol::default(),
            name: Vec::new(),
            is_ending: false,
            limits,
            is_authenticated: auth.is_none(),
            auth,
            throttled: ThrottleCounts::default(),
            last_quota: None,
        }
    }

    /// Restores the initial state.
    pub(super) fn reset(&mut self) {
        self.protocol = Protocol::default();
        self.name.clear();
        self.is_authenticated = self.auth.is_none();
    }
}

/// Limits of one connection. Clients are untrusted, so everything is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RespLimits {
    /// The longest command, in bytes as it is sent.
    pub frame_bytes: usize,
    /// The longest argument of a command.
    pub argument_bytes: usize,
    /// The maximum number of arguments of a command, including its name.
    pub arguments: usize,
    /// The longest inline command, in bytes up to the end of the line.
    pub inline_bytes: usize,
    /// The longest key of `CL.THROTTLE`.
    pub key_bytes: usize,
    /// The timeout of a command, from its first byte to its last.
    pub command_timeout: Duration,
    /// The timeout for reading the replies of one write.
    pub reply_timeout: Duration,
}

/// The default limits are many times those of the largest check.
impl Default for RespLimits {
    fn default() -> RespLimits {
        RespLimits {
            frame_bytes: 64 << 10,
            argument_bytes: 16 << 10,
            arguments: 1024,
            inline_bytes: 4 << 10,
            key_bytes: 4 << 10,
            command_timeout: Duration::from_secs(10),
            reply_timeout: Duration::from_secs(30),
        }
    }
}

/// The authentication that a client must perform with `AUTH` before other commands.
#[derive(Clone, Debug)]
pub struct RespAuth {
    /// The token, sent as the password.
    pub token: AccessToken,
    /// The address of the client, for the log.
    pub address: IpAddr,
}

impl RespAuth {
    /// Logs a command that was refused.
    #[cold]
    pub(super) fn note(&self, engine: &Engine, why: CallRefusal) {
        engine.observer().note_refused_call(Listener::Resp.name(), why, "", self.address);
    }
}
