use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::redis::{RedisServer, RedisSetup};
use crate::reply::Reply;

const NODES: usize = 6;
/// The timeout for agreement of the nodes.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster of three primaries with one replica each, which detects a dead node after a second.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts six nodes with the default setup, and waits until all of them agree.
    pub fn start() -> io::Result<RedisCluster> {
        RedisCluster::start_with(RedisSetup::default())
    }

    /// Starts six nodes with the same setup, and waits until all of them agree.
    pub fn start_with(setup: RedisSetup<'_>) -> io::Result<RedisCluster> {
        let mut arguments = vec!["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];
        // A replica may be promoted however old its data is, and replication starts without a delay.
        arguments.extend(["--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"]);
        arguments.extend(setup.arguments);
        let nodes = (0..NODES)
            .map(|_| RedisServer::start_with(RedisSetup { arguments: &arguments, ..setup }))
            .collect::<io::Result<Vec<_>>>()?;
        let cluster = RedisCluster { nodes };
        cluster.create(setup.password)?;
        cluster.wait_until("cluster_state:ok", RedisCluster::is_healthy)?;
        Ok(cluster)
    }

    /// Returns the addresses of all nodes, primaries and replicas.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(RedisServer::address).collect()
    }

    /// Returns the nodes.
    pub fn nodes(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// Returns the index in [`nodes`](RedisCluster::nodes) of the primary that owns a slot.
    pub fn owner(&self, slot: u16) -> io::Result<usize> {
        let begun = Instant::now();
        loop {
            for (index, node) in self.nodes.iter().enumerate() {
                let Ok(Reply::Text(lines)) = node.command(&["CLUSTER", "NODES"]) else { continue };
                if lines.lines().any(|line| line.contains(" myself,master ") && has_slot(line, slot)) {
                    return Ok(index);
                }
            }
            if begun.elapsed() > SETTLE_TIMEOUT {
                return Err(io::Error::other(format!("no node owns slot {slot}")));
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Returns the index in [`nodes`](RedisCluster::nodes) of the replica of a primary.
    pub fn replica_of(&self, primary: usize) -> io::Result<usize> {
        let field = format!("master_port:{}\r\n", self.nodes[primary].address().port());
        let replicates = |node: &RedisServer| {
            let info = node.command(&["INFO", "replication"]);
            matches!(info, Ok(Reply::Text(text)) if text.contains(&field))
        };
        let replica = self.nodes.iter().position(replicates);
        replica.ok_or_else(|| io::Error::other(format!("node {primary} has no replica")))
    }

    /// Kills the primary that owns a slot. Returns its index.
    pub fn kill_owner(&mut self, slot: u16) -> io::Result<usize> {
        let owner = self.owner(slot)?;
        self.nodes[owner].kill()?;
        Ok(owner)
    }

    /// Migrates a slot with its keys to another primary.
    pub fn migrate(&self, slot: u16, to: usize) -> io::Result<()> {
        let from = self.owner(slot)?;
        self.begin_migration(slot, to)?;
        let destination = self.nodes[to].address();
        loop {
            let Reply::Array(keys) =
                self.nodes[from].command(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "100"])?
            else {
                return Err(io::Error::other("CLUSTER GETKEYSINSLOT: the reply is not an array"));
            };
            if keys.is_empty() {
                return self.end_migration(slot, to);
            }
            for key in keys.iter().filter_map(Reply::text) {
                let (host, port) = (destination.ip().to_string(), destination.port().to_string());
                accepted(self.nodes[from].command(&["MIGRATE", &host, &port, key, "0", "5000"])?)?;
            }
        }
    }

    /// Marks a slot as migrating to another primary. From now on its owner serves the keys that it still has, and
    /// redirects calls for other keys to the other primary.
    pub fn begin_migration(&self, slot: u16, to: usize) -> io::Result<()> {
        let from = self.owner(slot)?;
        let (from_id, to_id) = (self.id(from)?, self.id(to)?);
        let slot = slot.to_string();
        accepted(self.nodes[to].command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id])?)?;
        accepted(self.nodes[from].command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id])?)
    }

    /// Makes a primary the owner of a slot whose keys it has, and waits until all nodes agree. If the slot were migrated
    /// again before that, two nodes could end up redirecting to each other.
    pub fn end_migration(&self, slot: u16, to: usize) -> io::Result<()> {
        let from = self.owner(slot)?;
        let to_id = self.id(to)?;
        for node in [to, from] {
            accepted(self.nodes[node].command(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &to_id])?)?;
        }
        self.wait_until("agreement on a slot", |cluster| {
            cluster.nodes.iter().all(|node| match node.command(&["CLUSTER", "NODES"]) {
                Ok(Reply::Text(lines)) => lines.lines().any(|line| line.starts_with(&to_id) && has_slot(line, slot)),
                // Dead nodes do not count.
                _ => true,
            })
        })
    }

    fn id(&self, node: usize) -> io::Result<String> {
        match self.nodes[node].command(&["CLUSTER", "MYID"])? {
            Reply::Text(id) => Ok(id),
            other => Err(io::Error::other(format!("CLUSTER MYID: {other:?}"))),
        }
    }

    fn create(&self, password: Option<&str>) -> io::Result<()> {
        let mut command = Command::new("redis-cli");
        if let Some(password) = password {
            command.args(["-a", password, "--no-auth-warning"]);
        }
        let output = command
            .args(["--cluster", "create"])
            .args(self.addresses().iter().map(SocketAddr::to_string))
            .args(["--cluster-replicas", "1", "--cluster-yes"])
            .stdin(Stdio::null())
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("redis-cli --cluster create: {}", String::from_utf8_lossy(&output.stdout))))
    }

    /// Returns whether all nodes report a healthy cluster, and every replica is connected to its primary.
    fn is_healthy(&self) -> bool {
        self.nodes.iter().all(|node| {
            let contains = |command: &[&str], text: &str| {
                node.command(command).is_ok_and(|reply| reply.text().is_some_and(|info| info.contains(text)))
            };
            contains(&["CLUSTER", "INFO"], "cluster_state:ok")
                && contains(&["CLUSTER", "INFO"], "cluster_known_nodes:6")
                && (contains(&["INFO", "replication"], "connected_slaves:1")
                    || contains(&["INFO", "replication"], "master_link_status:up"))
        })
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&RedisCluster) -> bool) -> io::Result<()> {
        let begun = Instant::now();
        while !holds(self) {
            if begun.elapsed() > SETTLE_TIMEOUT {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("timed out waiting for {what}")));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Converts an error reply to an error.
fn accepted(reply: Reply) -> io::Result<()> {
    match reply {
        Reply::Error(error) => Err(io::Error::other(error)),
        _ => Ok(()),
    }
}

/// Returns whether a line of `CLUSTER NODES` describes a node that owns the slot.
fn has_slot(line: &str, slot: u16) -> bool {
    line.split(' ').skip(8).any(|range| covers(range, slot))
}

fn covers(range: &str, slot: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) => (first..=last).contains(&slot),
        // A migrating slot, in brackets.
        _ => false,
    }
}
