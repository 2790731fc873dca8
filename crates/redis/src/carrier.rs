use std::sync::Arc;

use tokio::time::Instant;

use crate::call::Call;
use crate::script::{self, Encoded};
use crate::transport::{Cause, Done, Executed, ShardId, Slot, Transport, Trouble};
use crate::wire::{Client, OptionsError, RedisOptions, Script, ScriptCall};

/// Carries calls to real servers, as calls of the script.
pub(crate) struct Carrier {
    client: Client,
    script: Arc<Script>,
}

impl Carrier {
    /// Begins to connect. It must be called within a runtime, which carries all connections.
    pub(crate) fn start(options: &RedisOptions) -> Result<Carrier, OptionsError> {
        Ok(Carrier { client: Client::start(options)?, script: Arc::new(Script::new(script::SOURCE)) })
    }

    /// Whether every slot can be reached at present.
    pub(crate) fn is_ready(&self) -> bool {
        self.client.is_ready()
    }
}

impl Transport for Carrier {
    fn send(&self, slot: Slot, call: Call, deadline: Instant, done: Done) {
        let Encoded { keys, args } = script::encode(&call, None);
        let script_call = ScriptCall { script: Arc::clone(&self.script), keys, args };
        self.client.call(slot, script_call, deadline, move |answer| {
            done.hear(answer.and_then(|value| {
                // What makes no sense was carried out all the same, as far as anybody knows.
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
