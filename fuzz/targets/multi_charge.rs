//! Charges made together: a refused batch changes nothing, and the receipts of an admitted batch refund everything.

#![no_main]

mod decode;
#[path = "../../crates/store/tests/model/mod.rs"]
mod model;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use model::pair::{Pair, SCOPES, Step};

fuzz_target!(|data: &[u8]| {
    // The input may end within a step.
    let _ = run(&mut Unstructured::new(data));
});

fn run(bytes: &mut Unstructured<'_>) -> Result<()> {
    // Each quota has its own scope, so that no other quota reads its state.
    let quotas = (0..SCOPES).map(|scope| Ok((scope, decode::quota(bytes)?))).collect::<Result<Vec<_>>>()?;
    let mut pair = Pair::new(&quotas, 1 << 60);
    while !bytes.is_empty() {
        match bytes.int_in_range(0..=3_u8)? {
            0 => pair.step(&Step::Forward(decode::span_ns(bytes)?)),
            1 => pair.step(&Step::Check(decode::target(bytes)?, decode::cost(bytes)?)),
            2 => {
                let before = pair.peek_everything();
                let (all, _) = pair.answers_to_all(&decode::charges(bytes)?, false);
                let after = pair.peek_everything();
                assert!(all || before == after, "a refused batch has charged: {before:?}, {after:?}");
            }
            _ => {
                let before = pair.peek_everything();
                pair.answers_to_all(&decode::charges(bytes)?, true);
                pair.refund_everything();
                assert_eq!(before, pair.peek_everything(), "refunded at once");
            }
        }
    }
    Ok(())
}
