//! Reading any snapshot terminates, takes little memory and never panics. A restored store can be peeked, charged and
//! written again.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use tollgate_store::{Capacity, Limit, ManualClock, MemoryOptions, MemoryStore, Queue, Quota, RestoreError, WhenFull};

const OPTIONS: MemoryOptions = MemoryOptions { capacity: Capacity::Entries(64), when_full: WhenFull::EvictLeastUsed };
const NOW_NS: u64 = 1_790_000_000_000_000_000;
/// The length of the header, which is the same for any content of the store.
const HEADER_BYTES: usize = 56;

/// The kinds of records of caller-supplied limits: the marker from which on they are stored separately, a bucket, a
/// window.
const CALLERS_SEPARATE: u8 = 10;
const CALLER_BUCKET: u8 = 11;
const CALLER_WINDOW: u8 = 12;

fuzz_target!(|data: &[u8]| {
    let Some((&form, input)) = data.split_first() else { return };
    match form % 3 {
        // The input as it is.
        0 => _ = restore(input, NOW_NS).map(|restored| exercise(&restored)),
        // Any records after a valid header, with the right checksum.
        1 => _ = restore(&with_checksum([&header(), input].concat()), NOW_NS).map(|restored| exercise(&restored)),
        // Valid records of one key, with any numbers.
        _ => {
            let mut bytes = Unstructured::new(input);
            if let Ok((snapshot, now_ns)) = records(&mut bytes) {
                _ = restore(&snapshot, now_ns).map(|restored| exercise(&restored));
            }
        }
    }
});

struct Restored {
    store: MemoryStore,
    clock: ManualClock,
}

fn restore(bytes: &[u8], now_ns: u64) -> std::result::Result<Restored, RestoreError> {
    let clock = ManualClock::at(now_ns);
    let (store, _) = MemoryStore::restore(OPTIONS, clock.clone(), NOW_NS, &mut &bytes[..])?;
    Ok(Restored { store, clock })
}

fn empty() -> MemoryStore {
    MemoryStore::restorable(OPTIONS, ManualClock::at(NOW_NS)).unwrap()
}

fn written(store: &MemoryStore) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.write_snapshot(NOW_NS, &mut bytes).unwrap();
    bytes
}

fn header() -> Vec<u8> {
    written(&empty())[..HEADER_BYTES].to_vec()
}

/// Returns the hash of the only key, which follows the kind of the first record.
fn hash_of_key() -> [u8; 8] {
    let store = empty();
    let window = Quota::fixed_window("5/day".parse().unwrap()).unwrap();
    store.check(&store.limit("scope", window).unwrap(), "key", 1);
    written(&store)[HEADER_BYTES + 1..HEADER_BYTES + 9].try_into().unwrap()
}

/// Decodes a snapshot of up to eight records.
fn records(bytes: &mut Unstructured<'_>) -> Result<(Vec<u8>, u64)> {
    let mut snapshot = header();
    let hash = hash_of_key();
    let count = bytes.int_in_range(1..=8_u8)?;
    for _ in 0..count {
        let kind = *bytes.choose(&[1, 2, 3, 4, 5, 6, CALLERS_SEPARATE, CALLER_BUCKET, CALLER_WINDOW])?;
        snapshot.push(kind);
        if kind == CALLERS_SEPARATE {
            continue;
        }
        if kind == 1 {
            number(&mut snapshot, bytes.int_in_range(0..=2)?);
            snapshot.push(bytes.int_in_range(0..=2)?);
            (0..5).try_for_each(|_| Ok(number(&mut snapshot, any_number(bytes)?)))?;
            continue;
        }
        snapshot.extend(hash);
        if kind == 2 {
            number(&mut snapshot, bytes.int_in_range(0..=2)?);
            word(&mut snapshot, any_time(bytes)?);
            number(&mut snapshot, any_number(bytes)?);
            continue;
        }
        if kind == CALLER_BUCKET {
            (0..3).try_for_each(|_| Ok(number(&mut snapshot, any_number(bytes)?)))?;
            word(&mut snapshot, any_time(bytes)?);
            number(&mut snapshot, any_number(bytes)?);
            continue;
        }
        word(&mut snapshot, any_time(bytes)?);
        if kind == 5 {
            for _ in 0..bytes.int_in_range(0..=4_u8)? {
                number(&mut snapshot, any_number(bytes)?);
                number(&mut snapshot, any_time(bytes)?);
            }
            snapshot.push(0);
            continue;
        }
        word(&mut snapshot, any_time(bytes)?);
        if kind == 6 {
            for _ in 0..bytes.int_in_range(0..=4_u8)? {
                number(&mut snapshot, any_number(bytes)?);
                word(&mut snapshot, any_time(bytes)?);
                word(&mut snapshot, any_time(bytes)?);
            }
            snapshot.push(0);
            continue;
        }
        let numbers = if kind == CALLER_WINDOW { 3 } else { kind - 1 };
        (0..numbers).try_for_each(|_| Ok(number(&mut snapshot, any_number(bytes)?)))?;
    }
    let len = snapshot.len() as u64;
    snapshot.push(0);
    number(&mut snapshot, count.into());
    number(&mut snapshot, len);
    Ok((with_checksum(snapshot), any_time(bytes)?))
}

/// Decodes a number of any magnitude.
fn any_number(bytes: &mut Unstructured<'_>) -> Result<u64> {
    let bits = bytes.int_in_range(0..=63_u32)?;
    Ok(bytes.arbitrary::<u64>()? >> bits)
}

/// Decodes a time, mostly near the present.
fn any_time(bytes: &mut Unstructured<'_>) -> Result<u64> {
    let span = any_number(bytes)?;
    Ok(match bytes.int_in_range(0..=3_u8)? {
        0 => span,
        1 => NOW_NS.saturating_sub(span),
        _ => NOW_NS.saturating_add(span),
    })
}

fn word(to: &mut Vec<u8>, word: u64) {
    to.extend(word.to_le_bytes());
}

fn number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Appends the checksum.
fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let step = |sum: u32| if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 };
    let sum = !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum)));
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Peeks and charges the key under every algorithm, at several times, and writes the snapshot again.
fn exercise(restored: &Restored) {
    let store = &restored.store;
    let rate = "3/day".parse().unwrap();
    let quotas = [
        Quota::token_bucket(rate),
        Quota::leaky_queue(rate, Queue { size: 3, max_wait: None }),
        Quota::fixed_window(rate),
        Quota::sliding_window_counter(rate),
        Quota::sliding_window_log(rate),
        Quota::concurrency(3, Some(Duration::from_secs(60))),
    ];
    for quota in quotas {
        peek_and_charge(restored, &store.limit("scope", quota.unwrap()).unwrap());
    }
    for quota in [Quota::token_bucket(rate), Quota::fixed_window(rate)] {
        peek_and_charge(restored, &store.caller_limit("scope", quota.unwrap().with_max_debt(0).unwrap()).unwrap());
    }
    let again = restore(&written(store), NOW_NS);
    assert!(again.is_ok(), "the written snapshot cannot be read");
}

fn peek_and_charge(Restored { store, clock }: &Restored, limit: &Limit) {
    for ns in [0, 1, 86_400_000_000_000] {
        let before = store.peek(limit, "key");
        let after = store.check(limit, "key", 1);
        // States that no store has written may be inconsistent, but never have more remaining than the limit.
        assert!(before.remaining <= before.limit && after.remaining <= after.limit, "{:?}", limit.quota());
        clock.advance(Duration::from_nanos(ns));
    }
}
