//! Damaged snapshots are never restored, and never cause a panic.

#![allow(clippy::unwrap_used)]

mod quotas;

use std::io::{self, Read};
use std::time::Duration;

use quotas::every_algorithm;
use tollgate_store::{Capacity, ManualClock, MemoryOptions, MemoryStore, Quota, RestoreError, WhenFull};

const SMALL: MemoryOptions = MemoryOptions { capacity: Capacity::Entries(64), when_full: WhenFull::EvictLeastUsed };
const START_NS: u64 = 1_790_000_000_000_000_000;

/// Returns the snapshot of a small store with every algorithm.
fn whole() -> Vec<u8> {
    let store = MemoryStore::restorable(SMALL, ManualClock::at(START_NS)).unwrap();
    let leased = Quota::concurrency(3, Some(Duration::from_secs(60))).unwrap();
    for (at, quota) in every_algorithm("3/day").into_iter().chain([leased]).enumerate() {
        let limit = store.limit(&format!("scope-{at}"), quota).unwrap();
        for cost in 1..=2 {
            store.check(&limit, "key", cost);
        }
    }
    let mut bytes = Vec::new();
    store.write_snapshot(START_NS, &mut bytes).unwrap();
    bytes
}

fn restore(bytes: &[u8]) -> Result<(), RestoreError> {
    MemoryStore::restore(SMALL, ManualClock::at(START_NS), START_NS, &mut &bytes[..]).map(|_| ())
}

#[test]
fn every_flipped_bit_is_detected() {
    let mut bytes = whole();
    assert!(restore(&bytes).is_ok());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            let error = restore(&bytes).expect_err("a damaged bit");
            // A file of a later version would not be set aside.
            assert!(!matches!(error, RestoreError::NewerVersion { .. }), "byte {at}, bit {bit}");
            bytes[at] ^= 1 << bit;
        }
    }
}

#[test]
fn every_truncation_is_detected() {
    let bytes = whole();
    for len in 0..bytes.len() {
        assert!(restore(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
        let without_one = [&bytes[..len], &bytes[len + 1..]].concat();
        assert!(restore(&without_one).is_err(), "without byte {len}");
    }
    assert!(restore(&[bytes, vec![0]].concat()).is_err());
}

#[test]
fn later_version_is_distinguished_from_damage() {
    let mut bytes = whole();
    bytes[8..12].copy_from_slice(&3_u32.to_le_bytes());
    // CRC-32C of the first 12 bytes, as the next version will write them.
    let sum = crc(&bytes[..12]);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    assert!(matches!(restore(&bytes), Err(RestoreError::NewerVersion { version: 3 })));
}

#[test]
fn other_files_are_not_snapshots() {
    assert!(matches!(restore(b"version: 1\nrules: []\n"), Err(RestoreError::NotASnapshot)));
    assert!(matches!(restore(&[0; 64]), Err(RestoreError::NotASnapshot)));
}

#[test]
fn read_errors_are_distinguished_from_damage() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let restored = MemoryStore::restore(SMALL, ManualClock::at(START_NS), START_NS, &mut Broken);
    assert!(matches!(restored.map(|_| ()), Err(RestoreError::Io(_))));
}

#[test]
fn restore_does_not_depend_on_read_sizes() {
    struct OneByOne<'b>(&'b [u8]);
    impl Read for OneByOne<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let some = to.len().min(1);
            self.0.read(&mut to[..some])
        }
    }
    let bytes = whole();
    let (_, restored) =
        MemoryStore::restore(SMALL, ManualClock::at(START_NS), START_NS, &mut OneByOne(&bytes)).unwrap();
    assert_eq!((restored.keys, restored.lost), (7, 0));
}

/// Computes CRC-32C bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let step = |sum: u32| if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum)))
}
