//! Any operations in any order. A roomy store answers exactly what the model
//! does; a tiny one stays within its memory, and lets nobody have more than the
//! bound unless it has counted an eviction.

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
    // Bytes that end early have said what they had to say.
    let _ = match bytes.ratio(2_u8, 3) {
        Ok(true) => tell_roomy(&mut bytes),
        _ => tell_tiny(&mut bytes),
    };
});

fn tell_roomy(bytes: &mut Unstructured<'_>) -> Result<()> {
    let quotas = bytes.int_in_range(1..=8)?;
    let quotas = (0..quotas).map(|_| Ok((bytes.arbitrary()?, decode::quota(bytes)?))).collect::<Result<Vec<_>>>()?;
    let mut pair = Pair::new(&quotas, start_ns(bytes)?);
    while !bytes.is_empty() {
        pair.step(&decode::step(bytes)?);
    }
    pair.peek_everything();
    Ok(())
}

fn tell_tiny(bytes: &mut Unstructured<'_>) -> Result<()> {
    let mut tiny = Tiny::new(bytes)?;
    while !bytes.is_empty() {
        tiny.step(bytes)?;
    }
    Ok(())
}

/// This century, mostly; else the beginning of time or its end.
fn start_ns(bytes: &mut Unstructured<'_>) -> Result<u64> {
    let offset_ns = bytes.int_in_range(0..=10_000_000)?;
    Ok(match bytes.int_in_range(0..=7_u8)? {
        0 => offset_ns,
        1 => u64::MAX - offset_ns,
        _ => (1 << 60) + offset_ns,
    })
}
