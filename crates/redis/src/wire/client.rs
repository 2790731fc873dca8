use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::resp_value::Value;
use crate::transport::{Servers, ShardId, Slot, Trouble};
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
use crate::wire::protocol::script_call::ScriptCall;

/// Calls scripts on one server, on a primary that sentinels watch, or on a cluster.
///
/// It starts without waiting for anybody: while no server can be reached, calls
/// hear so. All connections end when it is dropped.
pub(crate) struct Client {
    pub(super) shared: Arc<Shared>,
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
        Ok(Client { shared, refresher, named: options.nodes.clone() })
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

    /// Listens on a channel of whoever owns a slot, until the task is ended.
    /// `heard` is told of every message, and whenever one may have been missed.
    pub(crate) fn listen(&self, slot: Slot, channel: &Arc<[u8]>, heard: &Arc<Notify>) -> JoinHandle<()> {
        let subscription = Subscription {
            client: Arc::clone(&self.shared),
            access: self.shared.access.clone(),
            slot,
            channel: Arc::clone(channel),
            heard: Arc::clone(heard),
        };
        self.shared.runtime.spawn(subscription.run())
    }

    /// Where keys with this hash tag live.
    pub(crate) fn slot(&self, tag: &[u8]) -> Slot {
        if self.has_one_slot() { Slot(0) } else { slot_of_tag(tag) }
    }

    /// Whether all keys live in slot 0.
    pub(crate) fn has_one_slot(&self) -> bool {
        self.shared.directory.slots() == 1
    }

    /// Who answers for a slot at present.
    pub(crate) fn shard(&self, slot: Slot) -> ShardId {
        self.shared.directory.owner_id(slot)
    }

    /// Where a server is, if it is still known.
    pub(crate) fn server(&self, shard: ShardId) -> Option<String> {
        self.shared.directory.address(shard).map(|address| address.to_string())
    }

    /// Every server that owns something, with a slot of its own.
    pub(crate) fn shards(&self) -> Vec<(ShardId, Slot)> {
        self.shared.directory.shards()
    }

    /// Who is there, and who is not. While nobody is known, those that were named count.
    pub(crate) fn servers(&self) -> Servers {
        let mut servers = self.shared.directory.servers();
        if servers.all.is_empty() {
            servers = Servers { all: self.named.clone(), unreached: self.named.clone() };
        }
        servers
    }

    /// Whether every slot can be reached at present.
    pub(crate) fn is_ready(&self) -> bool {
        self.shared.directory.is_whole()
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
