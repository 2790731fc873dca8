//! The calls by which instances of a region, and regions, exchange what they know: operations on hashes of two servers.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_store::BoxFuture;

use super::clock::ClockReading;
use crate::resp_value::Value;
use crate::wire::{RedisClient, Script};

/// The source of the script.
const SOURCE: &str = include_str!("exchange.lua");

/// The server of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ExchangeServer {
    /// That of the region, with its counters.
    Regional,
    /// The one that all regions share.
    Global,
}

/// An operation on one hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HashOp {
    /// Sets fields, and the time to live of the hash (0: none).
    Put { ttl_ms: u64, fields: Vec<(String, Vec<u8>)> },
    /// Sets a field that does not exist, or whose claim has ended. Replies 1 if that was done. A claim of 0 ms does not
    /// end.
    Claim { ttl_ms: u64, field: &'static str, owner: String, lease_ms: u64 },
    /// Reads fields; nil for those that do not exist.
    Get { fields: Vec<String> },
    /// Reads the names and values of all fields whose names begin with this text.
    All { prefix: String },
    /// Replaces a value, if it is as expected (empty: absent). Replies 1 if that was done, and the value before.
    Swap { field: &'static str, expected: String, value: String },
    /// Votes for a division. Replies the number of the vote that stands, the agreed division and the one before. `known` is
    /// what the region knows of these two, for a server that has lost them; empty if nothing.
    Vote { region: String, number: u64, division: String, known: [String; 2] },
    /// Reports to an epoch. Replies 1 if it was accepted: while the epoch lasts.
    Report { region: String, start_ms: u64, length_ms: u64, text: String },
    /// Reads the reports to an epoch. Replies 1 and the reports after the epoch has ended, else 0.
    Read { start_ms: u64, length_ms: u64 },
}

/// The reply to an operation, without the time.
pub(crate) type HashReply = Vec<Value>;

/// Runs operations on hashes.
pub(crate) trait Exchange: Send + Sync + 'static {
    /// Runs an operation on the hash of this name. `None` without a reply in time; then it is unknown whether it was
    /// executed.
    fn run(&self, server: ExchangeServer, name: String, op: HashOp) -> BoxFuture<'_, Option<(u64, HashReply)>>;
}

impl HashOp {
    /// Returns the arguments of the script.
    pub(crate) fn arguments(self) -> Vec<Vec<u8>> {
        let number = |number: u64| number.to_string().into_bytes();
        match self {
            HashOp::Put { ttl_ms, fields } => {
                let fields = fields.into_iter().flat_map(|(field, value)| [field.into_bytes(), value]);
                [b"put".to_vec(), number(ttl_ms)].into_iter().chain(fields).collect()
            }
            HashOp::Claim { ttl_ms, field, owner, lease_ms } => {
                vec![b"claim".to_vec(), number(ttl_ms), field.into(), owner.into_bytes(), number(lease_ms)]
            }
            HashOp::Get { fields } => {
                std::iter::once(b"get".to_vec()).chain(fields.into_iter().map(String::into_bytes)).collect()
            }
            HashOp::All { prefix } => vec![b"all".to_vec(), prefix.into_bytes()],
            HashOp::Swap { field, expected, value } => {
                vec![b"swap".to_vec(), field.into(), expected.into_bytes(), value.into_bytes()]
            }
            HashOp::Vote { region, number: vote, division, known: [agreed, previous] } => {
                let texts = [division, agreed, previous].map(String::into_bytes);
                [b"vote".to_vec(), region.into_bytes(), number(vote)].into_iter().chain(texts).collect()
            }
            HashOp::Report { region, start_ms, length_ms, text } => {
                vec![b"report".to_vec(), region.into_bytes(), number(start_ms), number(length_ms), text.into_bytes()]
            }
            HashOp::Read { start_ms, length_ms } => vec![b"read".to_vec(), number(start_ms), number(length_ms)],
        }
    }
}

/// Runs operations on two Redis servers or clusters.
pub(crate) struct RedisExchange {
    regional: Arc<RedisClient>,
    global: Arc<RedisClient>,
    script: Arc<Script>,
}

impl RedisExchange {
    pub(crate) fn new(regional: Arc<RedisClient>, global: Arc<RedisClient>) -> RedisExchange {
        RedisExchange { regional, global, script: Arc::new(Script::new(SOURCE)) }
    }
}

impl Exchange for RedisExchange {
    fn run(&self, server: ExchangeServer, name: String, op: HashOp) -> BoxFuture<'_, Option<(u64, HashReply)>> {
        Box::pin(async move {
            let client = match server {
                ExchangeServer::Regional => &self.regional,
                ExchangeServer::Global => &self.global,
            };
            let name: Arc<[u8]> = name.into_bytes().into();
            let value = client.run(&self.script, &name, SmallVec::from_vec(op.arguments())).await?;
            split_time(value)
        })
    }
}

/// Splits a reply into the time and the rest.
pub(crate) fn split_time(value: Value) -> Option<(u64, HashReply)> {
    let Value::Array(Some(values)) = value else { return None };
    let mut values = values.into_iter();
    let Some(Value::Integer(time_us)) = values.next() else { return None };
    Some((u64::try_from(time_us).ok()?, values.collect()))
}

/// Returns the fields of a reply as pairs of name and value.
pub(crate) fn fields(values: &[Value]) -> impl Iterator<Item = (&str, &[u8])> {
    values.chunks_exact(2).filter_map(|pair| match pair {
        [Value::Bulk(Some(name)), Value::Bulk(Some(value))] => Some((str::from_utf8(name).ok()?, &value[..])),
        _ => None,
    })
}

/// Reads the clock of a server by a call.
pub(super) async fn timed(
    exchange: &dyn Exchange,
    base: Instant,
    server: ExchangeServer,
    name: String,
    op: HashOp,
) -> Option<(ClockReading, HashReply)> {
    let since_base = |at: Instant| u64::try_from(at.saturating_duration_since(base).as_nanos()).unwrap_or(u64::MAX);
    let sent_ns = since_base(Instant::now());
    let (server_us, reply) = exchange.run(server, name, op).await?;
    Some((ClockReading { server_us, sent_ns, received_ns: since_base(Instant::now()) }, reply))
}
