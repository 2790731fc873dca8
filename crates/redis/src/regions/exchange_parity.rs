//! The same operations on a server and on the model give the same replies.

use std::sync::Arc;

use tollgate_testbed::RedisServer;

use super::exchange::{Exchange, ExchangeServer, HashOp, HashReply, RedisExchange};
use super::hash_server::HashServer;
use crate::resp_value::Value;
use crate::store::random::Random;
use crate::wire::{RedisClient, RedisOptions};

const OPERATIONS: usize = 8_000;
/// So short that epochs end during the test.
const EPOCH_MS: u64 = 20;

const REGIONS: [&str; 3] = ["ap", "eu", "us-2"];
const DIVISIONS: [&str; 3] = ["20 ap=1 eu=2", "20 ap=1 eu=2 us-2=3", "40 eu=5 us-2=1"];

fn operation(random: &mut Random, now_ms: u64) -> (&'static str, HashOp) {
    let text = |random: &mut Random, texts: &[&str]| texts[random.below(texts.len() as u32) as usize].to_owned();
    let region = text(random, &REGIONS);
    // The epoch that lasts, or one of those around it.
    let start_ms = (now_ms / EPOCH_MS + 2).saturating_sub(u64::from(random.below(4))) * EPOCH_MS;
    let ttl_ms = [0, 60_000][random.below(2) as usize];
    let of_region = ["first", "second"][random.below(2) as usize];
    match random.below(9) {
        0 => {
            let fields = (0..1 + random.below(3)).map(|number| (format!("x:{number}"), region.clone().into_bytes()));
            (of_region, HashOp::Put { ttl_ms, fields: fields.collect() })
        }
        1 => {
            let lease_ms = [0, 1, 5][random.below(3) as usize];
            (
                of_region,
                HashOp::Claim { ttl_ms, field: ["claim", "other"][random.below(2) as usize], owner: region, lease_ms },
            )
        }
        2 => (of_region, HashOp::Get { fields: ["x:0", "x:9", "swapped"].map(str::to_owned).to_vec() }),
        3 => (of_region, HashOp::All { prefix: "x:".to_owned() }),
        4 => {
            let (expected, value) = (text(random, &["", "a", "b"]), text(random, &["a", "b"]));
            (of_region, HashOp::Swap { field: "swapped", expected, value })
        }
        5 | 6 => {
            let division = text(random, &DIVISIONS);
            let known = match random.below(3) {
                0 => Default::default(),
                1 => [format!("7 {}", text(random, &DIVISIONS)), String::new()],
                _ => [format!("7 {}", text(random, &DIVISIONS)), text(random, &DIVISIONS)],
            };
            ("votes", HashOp::Vote { region, number: u64::from(random.below(1_000)), division, known })
        }
        7 => ("votes", HashOp::Report { region, start_ms, length_ms: EPOCH_MS, text: "500 25".to_owned() }),
        _ => ("votes", HashOp::Read { start_ms, length_ms: EPOCH_MS }),
    }
}

/// Fields are read in any order.
fn sorted(op: &HashOp, reply: HashReply) -> Vec<Vec<Value>> {
    let head = usize::from(matches!(op, HashOp::Read { .. }));
    if !matches!(op, HashOp::All { .. } | HashOp::Read { .. }) {
        return vec![reply];
    }
    let mut pairs: Vec<Vec<Value>> = reply[head..].chunks(2).map(<[Value]>::to_vec).collect();
    pairs.sort_by_key(|pair| format!("{pair:?}"));
    pairs.insert(0, reply[..head].to_vec());
    pairs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn model_replies_as_a_server_does() {
    let server = RedisServer::start(&[]).unwrap();
    let client = Arc::new(RedisClient::start(&RedisOptions::standalone(server.address().to_string())).unwrap());
    while !client.is_ready() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let exchange = RedisExchange::new(Arc::clone(&client), client);
    let (mut model, mut random, mut now_ms) = (HashServer::default(), Random::new(0x6578), 0);
    let mut agreed = std::collections::HashSet::new();
    for number in 0..OPERATIONS {
        if number % 200 == 199 {
            server.command(&["FLUSHALL"]).unwrap();
            model = HashServer::default();
        }
        let (name, op) = operation(&mut random, now_ms);
        let replied = exchange.run(ExchangeServer::Global, name.to_owned(), op.clone()).await;
        let (now_us, reply) = replied.unwrap_or_else(|| panic!("{number}: no reply to {op:?}"));
        let expected = model.run(name, op.clone(), now_us);
        assert_eq!(sorted(&op, reply.clone()), sorted(&op, expected), "{number}: {op:?}");
        if matches!(op, HashOp::Vote { .. }) {
            agreed.insert(format!("{:?}", reply[1]));
        }
        now_ms = now_us / 1_000;
    }
    // Divisions were agreed, changed and restored.
    assert!(agreed.len() > 10, "{agreed:?}");
}
