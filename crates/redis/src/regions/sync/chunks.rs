//! Amounts of many keys, in chunks of hashes.

use super::RegionSync;
use crate::regions::exchange::{ExchangeServer, HashOp};
use crate::regions::messages::{self, ScopedKey};
use crate::resp_value::Value;

/// The most chunks in one call, so that no call keeps a server busy for long.
const CHUNKS_PER_CALL: usize = 8;

impl RegionSync {
    /// Stores amounts in fields `<field>:<number>`, and if asked their number in `<field>` at last.
    pub(super) async fn put_chunks(
        &self,
        server: ExchangeServer,
        name: &str,
        field: &str,
        amounts: &[(ScopedKey, u64)],
        counts: bool,
        ttl_ms: u64,
    ) -> Option<()> {
        let chunks = messages::encode(amounts);
        let count = chunks.len();
        let mut fields: Vec<(String, Vec<u8>)> =
            chunks.into_iter().enumerate().map(|(number, chunk)| (format!("{field}:{number}"), chunk)).collect();
        if counts {
            fields.push((field.to_owned(), count.to_string().into_bytes()));
        }
        for fields in fields.chunks(CHUNKS_PER_CALL) {
            let put = HashOp::Put { ttl_ms, fields: fields.to_vec() };
            self.call(server, name.to_owned(), put).await?;
        }
        Some(())
    }

    /// Reads amounts. `None` if any is missing.
    pub(super) async fn read_chunks(
        &self,
        server: ExchangeServer,
        name: &str,
        field: &str,
        count: usize,
    ) -> Option<Vec<(ScopedKey, u64)>> {
        let mut amounts = Vec::new();
        let names: Vec<String> = (0..count).map(|number| format!("{field}:{number}")).collect();
        for names in names.chunks(CHUNKS_PER_CALL) {
            let (_, values) = self.call(server, name.to_owned(), HashOp::Get { fields: names.to_vec() }).await?;
            for value in values {
                let Value::Bulk(Some(chunk)) = value else { return None };
                amounts.extend(messages::decode(&chunk)?);
            }
        }
        Some(amounts)
    }
}

pub(super) fn count(value: &Value) -> Option<usize> {
    match value {
        Value::Bulk(Some(bytes)) => str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}
