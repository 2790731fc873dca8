use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const MIN_STEP: Duration = Duration::from_millis(10);
const MAX_STEP: Duration = Duration::from_secs(1);

/// Exponential backoff with jitter, so that many instances do not reconnect at the same time.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    attempts: u32,
    random: RandomState,
}

impl Backoff {
    /// Returns the pause before the next attempt: between half of the step and the whole step.
    pub(crate) fn next(&mut self) -> Duration {
        let step = MIN_STEP.saturating_mul(1 << self.attempts.min(10)).min(MAX_STEP);
        self.attempts = self.attempts.saturating_add(1);
        let random = self.random.hash_one(self.attempts) % 1024;
        step / 2 + step * random as u32 / 2048
    }

    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_second_until_reset() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..20).map(|_| backoff.next()).collect();
        assert!(waits[0] >= MIN_STEP / 2 && waits[0] <= MIN_STEP);
        assert!(waits[10..].iter().all(|&wait| wait >= MAX_STEP / 2 && wait <= MAX_STEP));
        backoff.reset();
        assert!(backoff.next() <= MIN_STEP);
    }

    #[test]
    fn instances_have_different_pauses() {
        let waits = |mut backoff: Backoff| -> Vec<_> { (0..20).map(|_| backoff.next()).collect() };
        assert_ne!(waits(Backoff::default()), waits(Backoff::default()));
    }
}
