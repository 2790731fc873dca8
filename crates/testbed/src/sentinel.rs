use std::io;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::redis::{RedisServer, RedisSetup};
use crate::reply::Reply;

/// The timeout until the sentinels know each other.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
const SENTINELS: usize = 3;

/// A primary, its replica, and three sentinels that detect a dead primary after half a second.
#[derive(Debug)]
pub struct SentinelTrio {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl SentinelTrio {
    /// The name under which the sentinels monitor the primary.
    pub const PRIMARY: &'static str = "tollgate-primary";

    /// Starts all servers, and waits until every sentinel knows the others.
    pub fn start() -> io::Result<SentinelTrio> {
        let primary = RedisServer::start(&["--repl-diskless-sync-delay", "0"])?;
        let port = primary.address().port().to_string();
        let replica = RedisServer::start(&["--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", &port])?;
        let mut sentinels = Vec::new();
        for _ in 0..SENTINELS {
            let sentinel = RedisServer::start_with(RedisSetup { sentinel: true, ..RedisSetup::default() })?;
            let name = SentinelTrio::PRIMARY;
            sentinel.command(&["SENTINEL", "MONITOR", name, "127.0.0.1", &port, "2"])?;
            sentinel.command(&["SENTINEL", "SET", name, "down-after-milliseconds", "500"])?;
            sentinel.command(&["SENTINEL", "SET", name, "failover-timeout", "2000"])?;
            sentinels.push(sentinel);
        }
        let trio = SentinelTrio { servers: vec![primary, replica], sentinels };
        trio.wait_until_ready()?;
        Ok(trio)
    }

    /// Returns the addresses of the sentinels.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(RedisServer::address).collect()
    }

    /// Returns the initial primary, then the initial replica.
    pub fn servers(&mut self) -> &mut [RedisServer] {
        &mut self.servers
    }

    /// Returns the sentinels.
    pub fn sentinels(&mut self) -> &mut [RedisServer] {
        &mut self.sentinels
    }

    fn wait_until_ready(&self) -> io::Result<()> {
        let begun = Instant::now();
        while !self.sentinels.iter().all(knows_the_others) {
            if begun.elapsed() > SETTLE_TIMEOUT {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the sentinels did not discover each other in time",
                ));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Returns whether a sentinel knows the primary, the replica and the other sentinels.
fn knows_the_others(sentinel: &RedisServer) -> bool {
    let Ok(Reply::Array(fields)) = sentinel.command(&["SENTINEL", "MASTER", SentinelTrio::PRIMARY]) else {
        return false;
    };
    let field = |name: &str| {
        let at = fields.iter().position(|field| field.text() == Some(name))?;
        fields.get(at + 1)?.text()
    };
    field("num-slaves") == Some("1")
        && field("num-other-sentinels") == Some("2")
        && field("flags") == Some("master")
        && is_replica_connected(sentinel)
}

/// Returns whether the sentinel has read the state of the replica. Otherwise it cannot be promoted.
fn is_replica_connected(sentinel: &RedisServer) -> bool {
    let reply = sentinel.command(&["SENTINEL", "REPLICAS", SentinelTrio::PRIMARY]);
    let Ok(Reply::Array(replicas)) = reply else { return false };
    let Some(Reply::Array(fields)) = replicas.first() else { return false };
    let at = fields.iter().position(|field| field.text() == Some("master-link-status"));
    at.and_then(|at| fields.get(at + 1)).and_then(Reply::text) == Some("ok")
}
