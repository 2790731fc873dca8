use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::agreement;
use crate::call::Call;
use crate::overrides;
use crate::resp_value::Value;
use crate::script::{self, Encoded};
use crate::transport::{Cause, Done, Executed, Servers, ShardId, Slot, Transport, Trouble};
use crate::wire::{Client, OptionsError, RedisOptions, Script, ScriptCall, Timing};

/// Carries calls to real servers, as calls of the script.
pub(crate) struct RedisTransport {
    client: Client,
    script: Arc<Script>,
    overrides: Arc<Script>,
    agreement: Arc<Script>,
}

impl RedisTransport {
    /// Begins to connect. It must be called within a runtime, which carries all connections.
    pub(crate) fn start(options: &RedisOptions) -> Result<RedisTransport, OptionsError> {
        let [script, overrides, agreement] =
            [script::SOURCE, overrides::SOURCE, agreement::SOURCE].map(|source| Arc::new(Script::new(source)));
        Ok(RedisTransport { client: Client::start(options)?, script, overrides, agreement })
    }

    /// Asks about the overrides that are kept under this name.
    pub(crate) fn ask_overrides(
        &self,
        name: &Arc<[u8]>,
        args: Vec<Vec<u8>>,
        deadline: Instant,
        hear: impl FnOnce(Result<Value, Trouble>) + Send + 'static,
    ) {
        self.ask(&self.overrides, name, args, deadline, hear);
    }

    /// Asks what all instances have in common, which is kept under this name.
    pub(crate) fn ask_agreement(
        &self,
        name: &Arc<[u8]>,
        args: Vec<Vec<u8>>,
        deadline: Instant,
        hear: impl FnOnce(Result<Value, Trouble>) + Send + 'static,
    ) {
        self.ask(&self.agreement, name, args, deadline, hear);
    }

    fn ask(
        &self,
        script: &Arc<Script>,
        name: &Arc<[u8]>,
        args: Vec<Vec<u8>>,
        deadline: Instant,
        hear: impl FnOnce(Result<Value, Trouble>) + Send + 'static,
    ) {
        let call = ScriptCall { script: Arc::clone(script), keys: vec![Arc::clone(name)], args, timing: Timing::None };
        // It has no braces, so all of the name says where it lives.
        self.client.call(self.client.slot(name), call, deadline, hear);
    }

    /// Listens to changes of the overrides that are kept under this name, until the task is ended.
    pub(crate) fn listen(&self, name: &Arc<[u8]>, changed: &Arc<Notify>) -> JoinHandle<()> {
        self.client.listen(self.client.slot(name), name, changed)
    }

    /// Whether every slot can be reached at present.
    pub(crate) fn is_ready(&self) -> bool {
        self.client.is_ready()
    }
}

impl Transport for RedisTransport {
    fn send(&self, slot: Slot, call: Call, deadline: Instant, done: Done) {
        let Encoded { keys, args } = script::encode(&call, None);
        let timing = if call.expires() { Timing::Expires { stamp: script::stamp } } else { Timing::Tells };
        let script_call = ScriptCall { script: Arc::clone(&self.script), keys, args, timing };
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

    fn has_one_slot(&self) -> bool {
        self.client.has_one_slot()
    }

    fn shard(&self, slot: Slot) -> ShardId {
        self.client.shard(slot)
    }

    fn server(&self, shard: ShardId) -> Option<String> {
        self.client.server(shard)
    }

    fn shards(&self) -> Vec<(ShardId, Slot)> {
        self.client.shards()
    }

    fn servers(&self) -> Servers {
        self.client.servers()
    }
}
