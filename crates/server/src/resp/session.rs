use std::sync::atomic::{AtomicU64, Ordering};

use super::commands::QuotaMemo;
use super::gate::RespGate;
use super::limits::RespLimits;
use super::reply::Protocol;

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
    /// How many `CL.THROTTLE` were decided and not timed yet.
    pub(super) throttled: u64,
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
            throttled: 0,
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
