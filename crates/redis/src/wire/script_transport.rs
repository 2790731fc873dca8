use std::sync::Arc;

use tokio::time::Instant;

use super::client::Client;
use super::options::{OptionsError, RedisOptions};
use super::script_call::{Script, ScriptCall};
// To be replaced by `crate::script` when it is there, with the same names.
use super::script_stub as script;
use crate::call::Call;
use crate::transport::{Cause, Done, Executed, ShardId, Slot, Transport, Trouble};

/// Carries calls as the one script that knows how to charge.
pub(crate) struct ScriptTransport {
    client: Client,
    script: Arc<Script>,
}

impl ScriptTransport {
    /// Begins to connect. It must be called within a runtime, which carries all connections.
    pub(crate) fn start(options: &RedisOptions) -> Result<ScriptTransport, OptionsError> {
        Ok(ScriptTransport { client: Client::start(options)?, script: Arc::new(Script::new(script::SOURCE)) })
    }
}

impl Transport for ScriptTransport {
    fn send(&self, slot: Slot, call: Call, deadline: Instant, done: Done) {
        // The server's own clock decides.
        let script::Encoded { keys, args } = script::encode(&call, None);
        let script_call = ScriptCall { script: Arc::clone(&self.script), keys, args };
        self.client.call(slot, script_call, deadline, move |answer| {
            done.hear(answer.and_then(|value| {
                // It was carried out, but nobody can say with what result.
                let nonsense = Trouble { cause: Cause::Protocol, executed: Executed::Unknown };
                script::decode(&call, value).map_err(|_| nonsense)
            }));
        });
    }

    fn slot(&self, tag: &[u8]) -> Slot {
        self.client.slot(tag)
    }

    fn shard(&self, slot: Slot) -> ShardId {
        self.client.shard(slot)
    }
}
