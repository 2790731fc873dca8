use std::net::IpAddr;

use crate::access::AccessToken;
use crate::engine::Engine;
use crate::observe::WhyRefused;
use crate::server::Listener;

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
