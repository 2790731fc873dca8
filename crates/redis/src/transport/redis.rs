use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::call::Call;
use crate::resp_value::Value;
use crate::script::{self, Encoded};
use crate::transport::{Cause, Done, Executed, Servers, ShardId, Slot, Transport, Trouble};
use crate::wire::{Client, OptionsError, RedisOptions, Script, ScriptCall, Timing};

/// Carries calls to real servers, as calls of the script.
pub(crate) struct RedisTransport {
    client: Client,
    script: Arc<Script>,
}

/// How long the answer to a script that decides nothing is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

impl RedisTransport {
    /// Begins to connect. It must be called within a runtime, which carries all connections.
    pub(crate) fn start(options: &RedisOptions) -> Result<RedisTransport, OptionsError> {
        Ok(RedisTransport { client: Client::start(options)?, script: Arc::new(Script::new(script::SOURCE)) })
    }

    /// Runs a script that decides nothing on the key of this name; `None` without an answer in time.
    pub(crate) async fn run(&self, script: &Arc<Script>, name: &Arc<[u8]>, args: Vec<Vec<u8>>) -> Option<Value> {
        let deadline = Instant::now() + PATIENCE;
        let (heard, answer) = oneshot::channel();
        let call = ScriptCall { script: Arc::clone(script), keys: vec![Arc::clone(name)], args, timing: Timing::None };
        // It has no braces, so all of the name says where it lives.
        self.client.call(self.client.slot(name), call, deadline, move |answer| {
            // A caller that does not wait any more does not want to know.
            let _ = heard.send(answer);
        });
        timeout_at(deadline, answer).await.ok()?.ok()?.ok()
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
