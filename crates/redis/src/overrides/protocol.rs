//! The requests about overrides, and their answers.

use std::sync::Arc;

use smallvec::smallvec;
use tollgate_store::{MAX_OVERRIDES, StoredOverride};

use crate::resp_value::Value;
use crate::wire::Args;

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum Request<'a> {
    /// What is there, for somebody who knows this epoch.
    Read {
        known: Option<u64>,
    },
    Set(&'a StoredOverride),
    Remove(&'a str),
    Tell(&'a [ResetKey]),
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Nothing that is new to the caller.
    Nothing,
    News(News),
}

/// What somebody hears who has not looked for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct News {
    pub(super) epoch: u64,
    /// Tidings up to this epoch are not there any more.
    pub(super) dropped: u64,
    pub(super) resets: Vec<ResetKey>,
    pub(super) overrides: Vec<StoredOverride>,
}

/// A key that was made as if untouched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResetKey {
    /// What the names of its scope's keys begin with.
    pub(crate) prefix_and_scope: Box<[u8]>,
    /// The key as it was given.
    pub(crate) key: Box<[u8]>,
}

/// An answer that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nonsense;

const MS_NS: u64 = 1_000_000;

impl Request<'_> {
    pub(super) fn arguments(&self) -> Args {
        match self {
            Request::Read { known } => {
                let known = known.map_or_else(|| "-1".to_owned(), |known| known.to_string());
                smallvec![b"read".to_vec(), known.into_bytes()]
            }
            Request::Set(StoredOverride { name, text, until_ns }) => smallvec![
                b"post".to_vec(),
                name.as_bytes().to_vec(),
                text.as_bytes().to_vec(),
                until_ns.div_ceil(MS_NS).to_string().into_bytes(),
                MAX_OVERRIDES.to_string().into_bytes(),
            ],
            Request::Remove(name) => smallvec![b"remove".to_vec(), name.as_bytes().to_vec()],
            Request::Tell(keys) => smallvec![b"tell".to_vec(), written(keys)],
        }
    }
}

/// Reads the answer to a question.
pub(super) fn read_news(value: &Value) -> Result<Said, Nonsense> {
    let Value::Array(Some(values)) = value else { return Err(Nonsense) };
    let mut values = values.iter();
    let epoch = number(values.next())?;
    if values.len() == 0 {
        return Ok(Said::Nothing);
    }
    let (dropped, tidings) = (number(values.next())?, number(values.next())?);
    let mut resets = Vec::new();
    for _ in 0..tidings {
        resets.extend(read_keys(bytes(values.next())?)?);
    }
    let mut overrides = Vec::new();
    while let Some(name) = values.next() {
        let (name, text) = (text(Some(name))?, text(values.next())?);
        let until_ns = number(values.next())?.saturating_mul(MS_NS);
        overrides.push(StoredOverride { name, text, until_ns });
    }
    Ok(Said::News(News { epoch, dropped, resets, overrides }))
}

/// Reads the answer to a change: whether there was room for it.
pub(super) fn read_change(value: &Value) -> Result<bool, Nonsense> {
    match value {
        Value::Array(Some(values)) => match values.as_slice() {
            [Value::Integer(epoch)] => Ok(*epoch >= 0),
            _ => Err(Nonsense),
        },
        _ => Err(Nonsense),
    }
}

/// Parts with their lengths before them, because a key may be of any bytes.
fn written(keys: &[ResetKey]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in keys.iter().flat_map(|reset| [&reset.prefix_and_scope, &reset.key]) {
        // Nothing that is called a key is longer than that.
        out.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(part);
    }
    out
}

fn read_keys(mut rest: &[u8]) -> Result<Vec<ResetKey>, Nonsense> {
    let mut part = || -> Result<Option<Box<[u8]>>, Nonsense> {
        if rest.is_empty() {
            return Ok(None);
        }
        let (length, after) = rest.split_first_chunk::<4>().ok_or(Nonsense)?;
        let (part, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(Nonsense)?;
        rest = after;
        Ok(Some(part.into()))
    };
    let mut keys = Vec::new();
    while let Some(prefix_and_scope) = part()? {
        keys.push(ResetKey { prefix_and_scope, key: part()?.ok_or(Nonsense)? });
    }
    Ok(keys)
}

fn number(value: Option<&Value>) -> Result<u64, Nonsense> {
    match value {
        Some(Value::Integer(number)) => u64::try_from(*number).map_err(|_| Nonsense),
        _ => Err(Nonsense),
    }
}

fn bytes(value: Option<&Value>) -> Result<&[u8], Nonsense> {
    match value {
        Some(Value::Bulk(Some(bytes))) => Ok(bytes),
        _ => Err(Nonsense),
    }
}

fn text(value: Option<&Value>) -> Result<Arc<str>, Nonsense> {
    str::from_utf8(bytes(value)?).map(Arc::from).map_err(|_| Nonsense)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reset(scope: &str, key: &[u8]) -> ResetKey {
        ResetKey { prefix_and_scope: scope.as_bytes().into(), key: key.into() }
    }

    #[test]
    fn keys_are_read_as_they_were_written() {
        for keys in [vec![], vec![reset("a:", b"")], vec![reset("a:", b"\0\xff|x"), reset("", b"alice")]] {
            assert_eq!(read_keys(&written(&keys)), Ok(keys));
        }
        let whole = written(&[reset("tollgate:a:", b"alice")]);
        for cut in 1..whole.len() {
            assert_eq!(read_keys(&whole[..cut]), Err(Nonsense), "{cut}");
        }
    }

    #[test]
    fn what_is_no_answer_is_not_taken_for_one() {
        let list = |values: Vec<Value>| Value::Array(Some(values));
        let integer = Value::Integer;
        assert_eq!(read_news(&list(vec![integer(7)])), Ok(Said::Nothing));
        let empty = News { epoch: 7, dropped: 3, resets: Vec::new(), overrides: Vec::new() };
        assert_eq!(read_news(&list(vec![integer(7), integer(3), integer(0)])), Ok(Said::News(empty)));
        for nonsense in [
            integer(7),
            list(vec![]),
            list(vec![integer(-1)]),
            list(vec![integer(7), integer(0)]),
            list(vec![integer(7), integer(0), integer(1)]),
            list(vec![integer(7), integer(0), integer(0), integer(0)]),
            list(vec![integer(7), integer(0), integer(0), Value::Bulk(Some(b"name".to_vec()))]),
        ] {
            assert_eq!(read_news(&nonsense), Err(Nonsense), "{nonsense:?}");
        }
        assert_eq!(read_change(&list(vec![integer(-1)])), Ok(false));
        assert_eq!(read_change(&list(vec![integer(9)])), Ok(true));
        assert_eq!(read_change(&integer(9)), Err(Nonsense));
    }
}
