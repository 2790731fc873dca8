//! What the store would forget.

use super::super::codes;
use super::super::problems::Problems;
use crate::model::{Policy, StoreSettings};
use crate::problem::Place;

const MINUTE_NS: u64 = 60_000_000_000;

/// A snapshot costs next to nothing, so nobody has to lose more than this.
const LONG_NS: u64 = 10 * MINUTE_NS;

pub(super) fn check(policy: &Policy, problems: &mut Problems) {
    let StoreSettings::Memory(memory) = &policy.store else { return };
    let Some(snapshot) = memory.snapshot.as_ref().filter(|snapshot| snapshot.every_ns > LONG_NS) else { return };
    let minutes = snapshot.every_ns / MINUTE_NS;
    let message = format!("a process that is killed gives back what was used within up to {minutes} minutes");
    let place = Place::top().member("store").member("memory").member("every");
    problems.add(codes::RARE_SNAPSHOTS, place, message, "write it more often: `every: 30s`");
}
