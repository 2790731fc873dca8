use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use smallvec::smallvec;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::call::Call;
use crate::resp_value::Value;
use crate::script::{self, Encoded};
use crate::transport::{CallError, Cause, Done, Executed, Servers, ShardId, Slot, Transport};
use crate::wire::attempt::CallAttempt;
use crate::wire::client_event::{ClientEvent, OnClientEvent};
use crate::wire::cluster::directory::{Directory, SlotMap, SlotRange};
use crate::wire::cluster::key_slot::{SLOTS, slot_of_tag};
use crate::wire::cluster::topology_refresher::TopologyRefresher;
use crate::wire::connection::address::Address;
use crate::wire::connection::connect_params::ConnectParams;
use crate::wire::connection::link::LinkSettings;
use crate::wire::connection::password::{Password, PasswordReader};
use crate::wire::connection::stream::Connector;
use crate::wire::connection::subscription::ChannelSubscription;
use crate::wire::options::{OptionsError, RedisMode, RedisOptions};
use crate::wire::protocol::script_call::{Args, ClockBounds, Script, ScriptCall, Timing};

/// The timeout of scripts that decide nothing.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Calls scripts on one server, on a primary that sentinels monitor, or on a cluster.
///
/// It starts without waiting for a connection; calls fail while no server is reachable. Dropping it closes all
/// connections.
pub(crate) struct RedisClient {
    pub(super) shared: Arc<Shared>,
    /// The script that decides requests.
    script: Arc<Script>,
    refresher: Option<JoinHandle<()>>,
    /// The nodes as configured.
    configured_nodes: Vec<String>,
}

/// The state that calls in flight share.
pub(crate) struct Shared {
    pub(crate) directory: Directory,
    pub(crate) runtime: Handle,
    /// Notified when the slot map may be out of date.
    pub(crate) stale: Arc<Notify>,
    connect: ConnectParams,
    on_event: OnClientEvent,
    /// Whether it was reported that a server belongs to a cluster, which the client does not expect.
    is_cluster_reported: AtomicBool,
}

impl RedisClient {
    /// Starts connecting. Must be called within a Tokio runtime, on which all connections run.
    #[cfg(test)]
    pub(crate) fn start(options: &RedisOptions) -> Result<RedisClient, OptionsError> {
        RedisClient::start_with(options, &(Arc::new(|_| {}) as OnClientEvent))
    }

    /// Starts connecting. Must be called within a Tokio runtime, on which all connections run. `on_event` is
    /// called with the events that an operator should know of.
    pub(crate) fn start_with(options: &RedisOptions, on_event: &OnClientEvent) -> Result<RedisClient, OptionsError> {
        let password_reader = |password: &Option<Password>| {
            let password = password.clone()?;
            Some(Arc::new(PasswordReader::new(password, Arc::clone(on_event))))
        };
        let seeds = options.addresses()?;
        let connector = connector(options)?;
        let connect = ConnectParams {
            connector: connector.clone(),
            username: options.username.clone(),
            password: password_reader(&options.password),
            database: options.database,
            requires_primary: matches!(options.mode, RedisMode::Sentinel { .. }),
            timeout: options.connect_timeout,
        };
        let stale = Arc::new(Notify::new());
        let settings = LinkSettings {
            connect: Arc::new(connect.clone()),
            reply_timeout: options.silence,
            max_calls: options.calls_per_connection,
            on_failure: Arc::clone(&stale),
        };
        let slots = if options.mode == RedisMode::Cluster { SLOTS } else { 1 };
        let directory = Directory::new(slots, options.connections_per_node, settings);
        let shared = Arc::new(Shared {
            directory,
            runtime: Handle::current(),
            stale,
            connect: connect.clone(),
            on_event: Arc::clone(on_event),
            is_cluster_reported: AtomicBool::new(false),
        });
        let refresher = match &options.mode {
            RedisMode::Standalone => {
                let ranges = seeds.into_iter().map(|owner| SlotRange { first: 0, last: 0, owner }).collect();
                shared.directory.apply(&SlotMap { ranges });
                None
            }
            RedisMode::Sentinel { primary } => {
                let connect_to_sentinel = ConnectParams {
                    connector,
                    username: options.sentinel_username.clone(),
                    password: password_reader(&options.sentinel_password),
                    database: 0,
                    requires_primary: false,
                    timeout: options.connect_timeout,
                };
                Some(TopologyRefresher::sentinel(primary, seeds, connect_to_sentinel, options.refresh_every))
            }
            RedisMode::Cluster => Some(TopologyRefresher::cluster(seeds, connect, options.refresh_every)),
        };
        let refresher = refresher.map(|refresher| shared.runtime.spawn(refresher.run(Arc::clone(&shared))));
        let script = Arc::new(Script::new(script::SOURCE));
        Ok(RedisClient { shared, script, refresher, configured_nodes: options.nodes.clone() })
    }

    /// Calls a script. `on_result` may be called before this function returns.
    pub(crate) fn call(
        &self,
        slot: Slot,
        call: ScriptCall,
        deadline: Instant,
        on_result: impl FnOnce(Result<Value, CallError>) + Send + 'static,
    ) {
        CallAttempt::new(Arc::clone(&self.shared), slot, call, deadline, on_result).send();
    }

    /// Subscribes to a channel, on the node that owns the slot of its name, until the task is aborted. `on_message` is
    /// notified of every message, and whenever one may have been missed.
    pub(crate) fn subscribe(&self, channel: &Arc<[u8]>, on_message: &Arc<Notify>) -> JoinHandle<()> {
        let subscription = ChannelSubscription {
            client: Arc::clone(&self.shared),
            connect: self.shared.connect.clone(),
            slot: self.slot(channel),
            channel: Arc::clone(channel),
            on_message: Arc::clone(on_message),
        };
        self.shared.runtime.spawn(subscription.run())
    }

    /// Runs a script that decides nothing on one key; `None` without a reply in time.
    pub(crate) async fn run(&self, script: &Arc<Script>, name: &Arc<[u8]>, args: Args) -> Option<Value> {
        let deadline = Instant::now() + SCRIPT_TIMEOUT;
        let (sender, receiver) = oneshot::channel();
        let call = ScriptCall {
            script: Arc::clone(script),
            keys: smallvec![Arc::clone(name)],
            args,
            timing: Timing::None,
            clock_bounds: None,
        };
        // The name has no braces, so the slot is that of the whole name.
        self.call(self.slot(name), call, deadline, move |result| {
            // The receiver is dropped after a timeout.
            let _ = sender.send(result);
        });
        timeout_at(deadline, receiver).await.ok()?.ok()?.ok()
    }

    /// Returns whether the owner of every slot is known and connected.
    pub(crate) fn is_ready(&self) -> bool {
        self.shared.directory.is_fully_connected()
    }

    /// Returns the nodes as configured.
    pub(crate) fn nodes(&self) -> &[String] {
        &self.configured_nodes
    }
}

impl Transport for RedisClient {
    fn send(&self, slot: Slot, call: Call, deadline: Instant, done: Done) {
        let Encoded { keys, args } = script::encode(&call, None);
        let timing = if call.expires() { Timing::Expires { stamp: script::stamp } } else { Timing::Reports };
        let clock_bounds = call.schedule_base().map(|base| ClockBounds { base, stamp: script::stamp_ahead });
        let script_call = ScriptCall { script: Arc::clone(&self.script), keys, args, timing, clock_bounds };
        self.call(slot, script_call, deadline, move |result| {
            done.complete(result.and_then(|value| {
                // The server may have executed a call even if its reply is malformed.
                let malformed = CallError { cause: Cause::Protocol, executed: Executed::Unknown };
                script::decode(&call, value).map_err(|_| malformed)
            }));
        });
    }

    fn slot(&self, tag: &[u8]) -> Slot {
        if self.is_cluster() { slot_of_tag(tag) } else { Slot(0) }
    }

    fn is_cluster(&self) -> bool {
        self.shared.is_cluster()
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

    /// Returns the configured nodes, as unreachable, while no server is known.
    fn servers(&self) -> Servers {
        let mut servers = self.shared.directory.servers();
        if servers.all.is_empty() {
            let nodes = self.configured_nodes.clone();
            servers = Servers { all: nodes.clone(), unreachable: nodes };
        }
        servers
    }
}

impl Drop for RedisClient {
    fn drop(&mut self) {
        if let Some(refresher) = &self.refresher {
            refresher.abort();
        }
        self.shared.directory.close();
    }
}

impl Shared {
    /// Whether the client expects a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.directory.slots() > 1
    }

    /// Reports once that a server belongs to a cluster, if the client does not expect one.
    pub(crate) fn report_cluster(&self, server: Option<&Address>) {
        if !self.is_cluster() && !self.is_cluster_reported.swap(true, Ordering::Relaxed) {
            let server = server.map_or_else(String::new, Address::to_string);
            (self.on_event)(ClientEvent::BelongsToCluster { server });
        }
    }

    /// Records that a node has redirected a slot to another node.
    pub(crate) fn record_redirect(&self, slot: Slot, to: &Address) {
        if let Some(node) = self.directory.node(to) {
            self.directory.set_owner(slot, &node);
        }
        // Slots often move together, so the slot map is read again.
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
