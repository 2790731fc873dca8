use std::io;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::redis::{RedisServer, RedisSetup};
use crate::reply::Reply;

const SETTLES_WITHIN: Duration = Duration::from_secs(60);
const SENTINELS: usize = 3;

/// A primary, its replica, and three sentinels that notice a dead primary after half a second.
#[derive(Debug)]
pub struct SentinelTrio {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl SentinelTrio {
    /// The name under which the sentinels know the primary.
    pub const PRIMARY: &'static str = "tollgate-primary";

    /// Starts them, and waits until every sentinel knows all others.
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
        trio.wait_until_all_are_known()?;
        Ok(trio)
    }

    /// Where the sentinels listen.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(RedisServer::address).collect()
    }

    /// The first primary, and what was its replica.
    pub fn servers(&mut self) -> &mut [RedisServer] {
        &mut self.servers
    }

    /// The sentinels.
    pub fn sentinels(&mut self) -> &mut [RedisServer] {
        &mut self.sentinels
    }

    fn wait_until_all_are_known(&self) -> io::Result<()> {
        let begun = Instant::now();
        while !self.sentinels.iter().all(knows_the_others) {
            if begun.elapsed() > SETTLES_WITHIN {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the sentinels did not find each other"));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

fn knows_the_others(sentinel: &RedisServer) -> bool {
    let Ok(Reply::Array(fields)) = sentinel.command(&["SENTINEL", "MASTER", SentinelTrio::PRIMARY]) else {
        return false;
    };
    let field = |name: &str| {
        let place = fields.iter().position(|field| field.text() == Some(name))?;
        fields.get(place + 1)?.text()
    };
    field("num-slaves") == Some("1")
        && field("num-other-sentinels") == Some("2")
        && field("flags") == Some("master")
        && replica_is_in_order(sentinel)
}

/// A replica that was never asked for its state cannot be promoted.
fn replica_is_in_order(sentinel: &RedisServer) -> bool {
    let reply = sentinel.command(&["SENTINEL", "REPLICAS", SentinelTrio::PRIMARY]);
    let Ok(Reply::Array(replicas)) = reply else { return false };
    let Some(Reply::Array(fields)) = replicas.first() else { return false };
    let place = fields.iter().position(|field| field.text() == Some("master-link-status"));
    place.and_then(|place| fields.get(place + 1)).and_then(Reply::text) == Some("ok")
}
