use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::commands::QuotaMemo;
use super::reply::Protocol;
use crate::access::AccessToken;
use crate::engine::Engine;
use crate::observe::WhyRefused;
use crate::server::Listener;
use crate::throttle::Throttled;

/// What a connection has said about itself.
pub(super) struct Session {
    /// Its number among all connections of this process.
    pub(super) id: u64,
    pub(super) protocol: Protocol,
    /// The name that the client gave itself; empty if it gave none.
    pub(super) name: Vec<u8>,
    /// Whether the client is done, or cannot be understood any more.
    pub(super) is_over: bool,
    pub(super) limits: RespLimits,
    /// What clients must know, if anything.
    pub(super) gate: Option<RespGate>,
    /// Whether this one has shown that it does.
    pub(super) is_admitted: bool,
    /// The `CL.THROTTLE` that were decided and not counted yet.
    pub(super) throttled: Throttled,
    /// The quota of its last `CL.THROTTLE`, which is nearly always that of the next.
    pub(super) last_quota: Option<QuotaMemo>,
}

impl Session {
    pub(super) fn new(limits: RespLimits, gate: Option<RespGate>) -> Session {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
        Session {
            id: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
            protocol: Protocol::default(),
            name: Vec::new(),
            is_over: false,
            limits,
            is_admitted: gate.is_none(),
            gate,
            throttled: Throttled::default(),
            last_quota: None,
        }
    }

    /// As it was when the client connected.
    pub(super) fn reset(&mut self) {
        self.protocol = Protocol::default();
        self.name.clear();
        self.is_admitted = self.gate.is_none();
    }
}

/// What one connection may send. Everything here is in a stranger's hands, so
/// everything has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RespLimits {
    /// The longest command, in bytes as it is sent.
    pub frame_bytes: usize,
    /// The longest argument of a command.
    pub argument_bytes: usize,
    /// The most arguments of a command, its name included.
    pub arguments: usize,
    /// The longest command that a person types, in bytes up to the end of the line.
    pub inline_bytes: usize,
    /// The longest key of `CL.THROTTLE`.
    pub key_bytes: usize,
    /// How long a command may take from its first byte to its last.
    pub command_at_most: Duration,
    /// How long a client may take for the answers that were written to it together.
    pub answers_at_most: Duration,
}

/// Room for a check that says all it can, many times over.
impl Default for RespLimits {
    fn default() -> RespLimits {
        RespLimits {
            frame_bytes: 64 << 10,
            argument_bytes: 16 << 10,
            arguments: 1024,
            inline_bytes: 4 << 10,
            key_bytes: 4 << 10,
            command_at_most: Duration::from_secs(10),
            answers_at_most: Duration::from_secs(30),
        }
    }
}

/// What a client must send with `AUTH` before anything else is answered.
#[derive(Clone, Debug)]
pub struct RespGate {
    /// The password of Redis clients.
    pub token: AccessToken,
    /// Where the client's connection comes from, for the log.
    pub address: IpAddr,
}

impl RespGate {
    /// Notes a command that was not admitted.
    #[cold]
    pub(super) fn note(&self, engine: &Engine, why: WhyRefused) {
        engine.observer().note_refused_call(Listener::Resp.name(), why, "", self.address);
    }
}
