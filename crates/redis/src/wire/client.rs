use std::sync::Arc;
use std::time::Duration;

use smallvec::smallvec;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::call::Call;
use crate::resp_value::Value;
use crate::script::{self, Encoded};
use crate::transport::{Cause, Done, Executed, Servers, ShardId, Slot, Transport, Trouble};
use crate::wire::attempt::Attempt;
use crate::wire::cluster::directory::{Directory, SlotMap, SlotRange};
use crate::wire::cluster::key_slot::{SLOTS, slot_of_tag};
use crate::wire::cluster::topology_refresher::TopologyRefresher;
use crate::wire::connection::access::Access;
use crate::wire::connection::address::Address;
use crate::wire::connection::link::LinkTerms;
use crate::wire::connection::stream::Connector;
use crate::wire::connection::subscription::Subscription;
use crate::wire::options::{OptionsError, RedisMode, RedisOptions};
use crate::wire::protocol::script_call::{Args, Script, ScriptCall, Timing};

/// How long the answer to a script that decides nothing is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Calls scripts on one server, on a primary that sentinels watch, or on a cluster.
///
/// It starts without waiting for anybody: while no server can be reached, calls
/// hear so. All connections end when it is dropped.
pub(crate) struct Client {
    pub(super) shared: Arc<Shared>,
    /// The script that decides.
    script: Arc<Script>,
    refresher: Option<JoinHandle<()>>,
    /// The servers as they were named.
    named: Vec<String>,
}

/// What calls on their way need.
pub(crate) struct Shared {
    pub(crate) directory: Directory,
    pub(crate) runtime: Handle,
    /// Told when it may not be true any more who owns what.
    pub(crate) stale: Arc<Notify>,
    access: Access,
}

impl Client {
    /// Begins to connect. It must be called within a runtime, which carries all connections.
    pub(crate) fn start(options: &RedisOptions) -> Result<Client, OptionsError> {
        let seeds = options.addresses()?;
        let connector = connector(options)?;
        let access = Access {
            connector: connector.clone(),
            username: options.username.clone(),
            password: options.password.clone(),
            database: options.database,
            only_primary: matches!(options.mode, RedisMode::Sentinel { .. }),
            timeout: options.connect_timeout,
        };
        let stale = Arc::new(Notify::new());
        let terms = LinkTerms {
            access: Arc::new(access.clone()),
            silence: options.silence,
            calls: options.calls_per_connection,
            on_trouble: Arc::clone(&stale),
        };
        let slots = if options.mode == RedisMode::Cluster { SLOTS } else { 1 };
        let directory = Directory::new(slots, options.connections_per_node, terms);
        let shared = Arc::new(Shared { directory, runtime: Handle::current(), stale, access: access.clone() });
        let refresher = match &options.mode {
            RedisMode::Standalone => {
                let ranges = seeds.into_iter().map(|owner| SlotRange { first: 0, last: 0, owner }).collect();
                shared.directory.apply(&SlotMap { ranges });
                None
            }
            RedisMode::Sentinel { primary } => {
                let to_sentinels = Access {
                    connector,
                    username: options.sentinel_username.clone(),
                    password: options.sentinel_password.clone(),
                    database: 0,
                    only_primary: false,
                    timeout: options.connect_timeout,
                };
                Some(TopologyRefresher::sentinel(primary, seeds, to_sentinels, options.refresh_every))
            }
            RedisMode::Cluster => Some(TopologyRefresher::cluster(seeds, access, options.refresh_every)),
        };
        let refresher = refresher.map(|refresher| shared.runtime.spawn(refresher.run(Arc::clone(&shared))));
        let script = Arc::new(Script::new(script::SOURCE));
        Ok(Client { shared, script, refresher, named: options.nodes.clone() })
    }

    /// Calls a script. Whoever hears may do so before this returns.
    pub(crate) fn call(
        &self,
        slot: Slot,
        call: ScriptCall,
        deadline: Instant,
        hear: impl FnOnce(Result<Value, Trouble>) + Send + 'static,
    ) {
        Attempt::new(Arc::clone(&self.shared), slot, call, deadline, hear).send();
    }

    /// Listens on the channel of this name, on the node that owns its slot, until the task is ended.
    /// `heard` is told of every message, and whenever one may have been missed.
    pub(crate) fn listen(&self, channel: &Arc<[u8]>, heard: &Arc<Notify>) -> JoinHandle<()> {
        let subscription = Subscription {
            client: Arc::clone(&self.shared),
            access: self.shared.access.clone(),
            slot: self.slot(channel),
            channel: Arc::clone(channel),
            heard: Arc::clone(heard),
        };
        self.shared.runtime.spawn(subscription.run())
    }

    /// Runs a script that decides nothing on the key of this name; `None` without an answer in time.
    pub(crate) async fn run(&self, script: &Arc<Script>, name: &Arc<[u8]>, args: Args) -> Option<Value> {
        let deadline = Instant::now() + PATIENCE;
        let (heard, answer) = oneshot::channel();
        let call =
            ScriptCall { script: Arc::clone(script), keys: smallvec![Arc::clone(name)], args, timing: Timing::None };
        // It has no braces, so all of the name says where it lives.
        self.call(self.slot(name), call, deadline, move |answer| {
            // A caller that does not wait any more does not want to know.
            let _ = heard.send(answer);
        });
        timeout_at(deadline, answer).await.ok()?.ok()?.ok()
    }

    /// Whether every slot can be reached at present.
    pub(crate) fn is_ready(&self) -> bool {
        self.shared.directory.is_whole()
    }

    /// The servers as they were named.
    pub(crate) fn nodes(&self) -> &[String] {
        &self.named
    }
}

impl Transport for Client {
    fn send(&self, slot: Slot, call: Call, deadline: Instant, done: Done) {
        let Encoded { keys, args } = script::encode(&call, None);
        let timing = if call.expires() { Timing::Expires { stamp: script::stamp } } else { Timing::Tells };
        let script_call = ScriptCall { script: Arc::clone(&self.script), keys, args, timing };
        self.call(slot, script_call, deadline, move |answer| {
            done.hear(answer.and_then(|value| {
                // What makes no sense was carried out all the same, as far as anybody knows.
                let nonsense = Trouble { cause: Cause::Protocol, executed: Executed::Unknown };
                script::decode(&call, value).map_err(|_| nonsense)
            }));
        });
    }

    fn slot(&self, tag: &[u8]) -> Slot {
        if self.has_one_slot() { Slot(0) } else { slot_of_tag(tag) }
    }

    fn has_one_slot(&self) -> bool {
        self.shared.directory.slots() == 1
    }

    fn shard(&self, slot: Slot) -> ShardId {
        self.shared.directory.owner_id(slot)
    }

    fn server(&self, shard: ShardId) -> Option<String> {
        self.shared.directory.address(shard).map(|address| address.to_string())
    }

    fn shards(&self) -> Vec<(ShardId, Slot)> {
        self.shared.directory.shards()
    }

    /// While no server is known, those that were named count.
    fn servers(&self) -> Servers {
        let mut servers = self.shared.directory.servers();
        if servers.all.is_empty() {
            servers = Servers { all: self.named.clone(), unreached: self.named.clone() };
        }
        servers
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(refresher) = &self.refresher {
            refresher.abort();
        }
        self.shared.directory.close();
    }
}

impl Shared {
    /// A node has said that a slot belongs to another.
    pub(crate) fn moved(&self, slot: Slot, to: &Address) {
        if let Some(node) = self.directory.node(to) {
            self.directory.set_owner(slot, &node);
        }
        // Where one has moved there are often more.
        self.stale.notify_one();
    }
}

#[cfg(feature = "tls")]
fn connector(options: &RedisOptions) -> Result<Connector, OptionsError> {
    match &options.tls {
        Some(tls) => crate::wire::connection::tls::TlsConnector::new(tls).map(Connector::Tls),
        None => Ok(Connector::Plain),
    }
}

#[cfg(not(feature = "tls"))]
fn connector(options: &RedisOptions) -> Result<Connector, OptionsError> {
    if options.tls.is_some() { Err(OptionsError::TlsNotBuilt) } else { Ok(Connector::Plain) }
}
