//! Any operations in any order. A store with enough capacity returns exactly the decisions of the model. A tiny store
//! stays within its memory, and admits no key beyond its bound unless it has counted an eviction.

#![no_main]

mod decode;
#[path = "../../crates/store/tests/model/mod.rs"]
mod model;
mod tiny;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use model::pair::Pair;
use tiny::Tiny;

fuzz_target!(|data: &[u8]| {
    let mut bytes = Unstructured::new(data);
    // The input may end within a step.
    let _ = match bytes.ratio(2_u8, 3) {
        Ok(true) => run_with_capacity(&mut bytes),
        _ => run_tiny(&mut bytes),
    };
});

fn run_with_capacity(bytes: &mut Unstructured<'_>) -> Result<()> {
    let quotas = bytes.int_in_range(1..=8)?;
    let quotas = (0..quotas).map(|_| Ok((bytes.arbitrary()?, decode::quota(bytes)?))).collect::<Result<Vec<_>>>()?;
    let mut pair = Pair::new(&quotas, start_ns(bytes)?);
    while !bytes.is_empty() {
        pair.step(&decode::step(bytes)?);
    }
    pair.peek_everything();
    Ok(())
}

fn run_tiny(bytes: &mut Unstructured<'_>) -> Result<()> {
    let mut tiny = Tiny::new(bytes)?;
    while !bytes.is_empty() {
        tiny.step(bytes)?;
    }
    Ok(())
}

/// Decodes the start time: mostly in this century, else near the smallest or the largest time.
fn start_ns(bytes: &mut Unstructured<'_>) -> Result<u64> {
    let offset_ns = bytes.int_in_range(0..=10_000_000)?;
    Ok(match bytes.int_in_range(0..=7_u8)? {
        0 => offset_ns,
        1 => u64::MAX - offset_ns,
        _ => (1 << 60) + offset_ns,
    })
}
