use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);

/// How long to wait before the next attempt: longer each time, and never for
/// the same time as others, so that many instances do not come back at once.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    attempts: u32,
    random: RandomState,
}

impl Backoff {
    /// Between half of the step's length and all of it.
    pub(crate) fn next(&mut self) -> Duration {
        let step = FIRST.saturating_mul(1 << self.attempts.min(10)).min(LONGEST);
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
    fn grows_to_a_second_and_begins_again() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..20).map(|_| backoff.next()).collect();
        assert!(waits[0] >= FIRST / 2 && waits[0] <= FIRST);
        assert!(waits[10..].iter().all(|&wait| wait >= LONGEST / 2 && wait <= LONGEST));
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }

    #[test]
    fn two_do_not_wait_alike() {
        let waits = |mut backoff: Backoff| -> Vec<_> { (0..20).map(|_| backoff.next()).collect() };
        assert_ne!(waits(Backoff::default()), waits(Backoff::default()));
    }
}
