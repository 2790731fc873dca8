//! The requests of `overrides.lua`, and its replies.

use std::sync::Arc;

use smallvec::smallvec;
use tollgate_store::{MAX_OVERRIDES, StoredOverride};

use crate::resp_value::Value;
use crate::wire::Args;

/// A request to the script.
#[derive(Clone, Debug)]
pub(super) enum OverrideRequest<'a> {
    /// Reads the changes since an epoch, or everything.
    Read {
        known_epoch: Option<u64>,
    },
    Set(&'a StoredOverride),
    Remove(&'a str),
    AnnounceResets(&'a [ResetKey]),
}

/// The reply to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OverridesReply {
    /// The epoch is still the one that the caller knows.
    Unchanged,
    Changed(OverrideChanges),
}

/// All overrides, and the resets since the epoch that the caller knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OverrideChanges {
    pub(super) epoch: u64,
    /// Resets up to this epoch have been dropped from the server.
    pub(super) dropped_epoch: u64,
    pub(super) resets: Vec<ResetKey>,
    pub(super) overrides: Vec<StoredOverride>,
}

/// A key whose state was deleted by an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResetKey {
    /// The beginning of the server's name for the key: prefix and scope.
    pub(crate) prefix_and_scope: Box<[u8]>,
    /// The key as the caller passed it.
    pub(crate) key: Box<[u8]>,
}

/// The reply does not have the expected form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedReply;

const MS_NS: u64 = 1_000_000;

impl OverrideRequest<'_> {
    /// Returns the arguments of the script.
    pub(super) fn arguments(&self) -> Args {
        match self {
            OverrideRequest::Read { known_epoch } => {
                let known_epoch = known_epoch.map_or_else(|| "-1".to_owned(), |epoch| epoch.to_string());
                smallvec![b"read".to_vec(), known_epoch.into_bytes()]
            }
            OverrideRequest::Set(StoredOverride { name, text, until_ns }) => smallvec![
                b"post".to_vec(),
                name.as_bytes().to_vec(),
                text.as_bytes().to_vec(),
                until_ns.div_ceil(MS_NS).to_string().into_bytes(),
                MAX_OVERRIDES.to_string().into_bytes(),
            ],
            OverrideRequest::Remove(name) => smallvec![b"remove".to_vec(), name.as_bytes().to_vec()],
            OverrideRequest::AnnounceResets(keys) => smallvec![b"tell".to_vec(), encode_keys(keys)],
        }
    }
}

/// Parses the reply to a read.
pub(super) fn parse_changes(value: &Value) -> Result<OverridesReply, MalformedReply> {
    let Value::Array(Some(values)) = value else { return Err(MalformedReply) };
    let mut values = values.iter();
    let epoch = number(values.next())?;
    if values.len() == 0 {
        return Ok(OverridesReply::Unchanged);
    }
    let (dropped_epoch, announcements) = (number(values.next())?, number(values.next())?);
    let mut resets = Vec::new();
    for _ in 0..announcements {
        resets.extend(decode_keys(bytes(values.next())?)?);
    }
    let mut overrides = Vec::new();
    while let Some(name) = values.next() {
        let (name, text) = (text(Some(name))?, text(values.next())?);
        let until_ns = number(values.next())?.saturating_mul(MS_NS);
        overrides.push(StoredOverride { name, text, until_ns });
    }
    Ok(OverridesReply::Changed(OverrideChanges { epoch, dropped_epoch, resets, overrides }))
}

/// Parses the reply to a change: whether it was made. It is not if there are too many overrides.
pub(super) fn parse_change(value: &Value) -> Result<bool, MalformedReply> {
    match value {
        Value::Array(Some(values)) => match values.as_slice() {
            [Value::Integer(epoch)] => Ok(*epoch >= 0),
            _ => Err(MalformedReply),
        },
        _ => Err(MalformedReply),
    }
}

/// Encodes keys as parts with their length before them, because a key may contain any bytes.
fn encode_keys(keys: &[ResetKey]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in keys.iter().flat_map(|reset| [&reset.prefix_and_scope, &reset.key]) {
        // Keys are shorter than 4 GiB.
        out.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(part);
    }
    out
}

fn decode_keys(mut rest: &[u8]) -> Result<Vec<ResetKey>, MalformedReply> {
    let mut part = || -> Result<Option<Box<[u8]>>, MalformedReply> {
        if rest.is_empty() {
            return Ok(None);
        }
        let (length, after) = rest.split_first_chunk::<4>().ok_or(MalformedReply)?;
        let (part, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(MalformedReply)?;
        rest = after;
        Ok(Some(part.into()))
    };
    let mut keys = Vec::new();
    while let Some(prefix_and_scope) = part()? {
        keys.push(ResetKey { prefix_and_scope, key: part()?.ok_or(MalformedReply)? });
    }
    Ok(keys)
}

fn number(value: Option<&Value>) -> Result<u64, MalformedReply> {
    match value {
        Some(Value::Integer(number)) => u64::try_from(*number).map_err(|_| MalformedReply),
        _ => Err(MalformedReply),
    }
}

fn bytes(value: Option<&Value>) -> Result<&[u8], MalformedReply> {
    match value {
        Some(Value::Bulk(Some(bytes))) => Ok(bytes),
        _ => Err(MalformedReply),
    }
}

fn text(value: Option<&Value>) -> Result<Arc<str>, MalformedReply> {
    str::from_utf8(bytes(value)?).map(Arc::from).map_err(|_| MalformedReply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reset(scope: &str, key: &[u8]) -> ResetKey {
        ResetKey { prefix_and_scope: scope.as_bytes().into(), key: key.into() }
    }

    #[test]
    fn encoded_keys_decode_to_the_same_keys_and_truncated_ones_are_malformed() {
        for keys in [vec![], vec![reset("a:", b"")], vec![reset("a:", b"\0\xff|x"), reset("", b"alice")]] {
            assert_eq!(decode_keys(&encode_keys(&keys)), Ok(keys));
        }
        let whole = encode_keys(&[reset("tollgate:a:", b"alice")]);
        for cut in 1..whole.len() {
            assert_eq!(decode_keys(&whole[..cut]), Err(MalformedReply), "{cut}");
        }
    }

    #[test]
    fn malformed_replies_are_errors() {
        let list = |values: Vec<Value>| Value::Array(Some(values));
        let integer = Value::Integer;
        assert_eq!(parse_changes(&list(vec![integer(7)])), Ok(OverridesReply::Unchanged));
        let empty = OverrideChanges { epoch: 7, dropped_epoch: 3, resets: Vec::new(), overrides: Vec::new() };
        assert_eq!(parse_changes(&list(vec![integer(7), integer(3), integer(0)])), Ok(OverridesReply::Changed(empty)));
        for malformed in [
            integer(7),
            list(vec![]),
            list(vec![integer(-1)]),
            list(vec![integer(7), integer(0)]),
            list(vec![integer(7), integer(0), integer(1)]),
            list(vec![integer(7), integer(0), integer(0), integer(0)]),
            list(vec![integer(7), integer(0), integer(0), Value::Bulk(Some(b"name".to_vec()))]),
        ] {
            assert_eq!(parse_changes(&malformed), Err(MalformedReply), "{malformed:?}");
        }
        assert_eq!(parse_change(&list(vec![integer(-1)])), Ok(false));
        assert_eq!(parse_change(&list(vec![integer(9)])), Ok(true));
        assert_eq!(parse_change(&integer(9)), Err(MalformedReply));
    }
}
