use std::sync::{Mutex, PoisonError};

/// How many are written in a second.
const A_SECOND: u64 = 5;

/// Limits log lines of one kind to a few a second: a server that comes and goes, or a
/// caller that tries out tokens, must not fill a disk.
#[derive(Debug, Default)]
pub(in crate::observe) struct LogThrottle {
    /// In which second, and how many.
    spent: Mutex<(u64, u64)>,
}

impl LogThrottle {
    pub(in crate::observe) fn take(&self, now_s: u64) -> bool {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if spent.0 != now_s {
            *spent = (now_s, 0);
        }
        spent.1 += 1;
        spent.1 <= A_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many() {
        let lines = LogThrottle::default();
        assert_eq!((0..100).filter(|_| lines.take(7)).count() as u64, A_SECOND);
        assert!(lines.take(8));
    }
}
