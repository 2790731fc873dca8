use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::redis::{RedisServer, RedisSetup};
use crate::reply::Reply;

const NODES: usize = 6;
const SETTLES_WITHIN: Duration = Duration::from_secs(60);

/// Three primaries with a replica each, which notice a dead one after a second.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts six nodes of `redis-server`, and waits until all of them agree.
    pub fn start() -> io::Result<RedisCluster> {
        RedisCluster::start_with(RedisSetup::default())
    }

    /// Starts six nodes that are set up alike, and waits until all of them agree.
    pub fn start_with(setup: RedisSetup<'_>) -> io::Result<RedisCluster> {
        let mut arguments = vec!["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];
        // A replica whose primary is gone at once has no reason to wait for newer data.
        arguments.extend(["--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"]);
        arguments.extend(setup.arguments);
        let nodes = (0..NODES)
            .map(|_| RedisServer::start_with(RedisSetup { arguments: &arguments, ..setup }))
            .collect::<io::Result<Vec<_>>>()?;
        let cluster = RedisCluster { nodes };
        cluster.create(setup.password)?;
        cluster.wait_until("cluster_state:ok", RedisCluster::is_whole)?;
        Ok(cluster)
    }

    /// Where the nodes listen, primaries and replicas.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(RedisServer::address).collect()
    }

    /// The nodes.
    pub fn nodes(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// Which node is the primary of a slot, by its place among [`nodes`](RedisCluster::nodes).
    pub fn owner(&self, slot: u16) -> io::Result<usize> {
        let begun = Instant::now();
        loop {
            for (index, node) in self.nodes.iter().enumerate() {
                let Ok(Reply::Text(lines)) = node.command(&["CLUSTER", "NODES"]) else { continue };
                if lines.lines().any(|line| line.contains(" myself,master ") && has_slot(line, slot)) {
                    return Ok(index);
                }
            }
            if begun.elapsed() > SETTLES_WITHIN {
                return Err(io::Error::other(format!("nobody owns slot {slot}")));
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Kills the primary of a slot, and says which node it was.
    pub fn kill_owner(&mut self, slot: u16) -> io::Result<usize> {
        let owner = self.owner(slot)?;
        self.nodes[owner].kill()?;
        Ok(owner)
    }

    /// Moves a slot with its keys to another primary.
    pub fn migrate(&self, slot: u16, to: usize) -> io::Result<()> {
        let from = self.owner(slot)?;
        self.begin_migration(slot, to)?;
        let destination = self.nodes[to].address();
        loop {
            let Reply::Array(keys) =
                self.nodes[from].command(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "100"])?
            else {
                return Err(io::Error::other("no list of keys"));
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

    /// Marks a slot as on its way to another primary: from now on its owner
    /// answers for the keys that it still has, and sends who asks for others there.
    pub fn begin_migration(&self, slot: u16, to: usize) -> io::Result<()> {
        let from = self.owner(slot)?;
        let (from_id, to_id) = (self.id(from)?, self.id(to)?);
        let slot = slot.to_string();
        accepted(self.nodes[to].command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id])?)?;
        accepted(self.nodes[from].command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id])?)
    }

    /// Makes a primary the owner of a slot whose keys it has, and waits until all agree. Slots that
    /// move again before that can end up with two nodes that each name the other.
    pub fn end_migration(&self, slot: u16, to: usize) -> io::Result<()> {
        let from = self.owner(slot)?;
        let to_id = self.id(to)?;
        for node in [to, from] {
            accepted(self.nodes[node].command(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &to_id])?)?;
        }
        self.wait_until("agreement on a slot", |cluster| {
            cluster.nodes.iter().all(|node| match node.command(&["CLUSTER", "NODES"]) {
                Ok(Reply::Text(lines)) => lines.lines().any(|line| line.starts_with(&to_id) && has_slot(line, slot)),
                // The dead have no opinion.
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

    /// Whether all see a cluster in order, and every replica follows its primary.
    fn is_whole(&self) -> bool {
        self.nodes.iter().all(|node| {
            let says = |command: &[&str], text: &str| {
                node.command(command).is_ok_and(|reply| reply.text().is_some_and(|info| info.contains(text)))
            };
            says(&["CLUSTER", "INFO"], "cluster_state:ok")
                && says(&["CLUSTER", "INFO"], "cluster_known_nodes:6")
                && (says(&["INFO", "replication"], "connected_slaves:1")
                    || says(&["INFO", "replication"], "master_link_status:up"))
        })
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&RedisCluster) -> bool) -> io::Result<()> {
        let begun = Instant::now();
        while !holds(self) {
            if begun.elapsed() > SETTLES_WITHIN {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("waited in vain for {what}")));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

fn accepted(reply: Reply) -> io::Result<()> {
    match reply {
        Reply::Error(error) => Err(io::Error::other(error)),
        _ => Ok(()),
    }
}

/// Whether a line of `CLUSTER NODES` is about a node that has the slot.
fn has_slot(line: &str, slot: u16) -> bool {
    line.split(' ').skip(8).any(|range| covers(range, slot))
}

fn covers(range: &str, slot: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) => (first..=last).contains(&slot),
        // A slot on its way, in brackets.
        _ => false,
    }
}
