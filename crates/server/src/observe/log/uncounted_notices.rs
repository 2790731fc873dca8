use std::sync::{Mutex, PoisonError};

/// How far apart two such notices are. A store that is full stays so for long.
const APART_S: u64 = 60;

/// Says now and then that requests are refused because they cannot be counted, and how many.
#[derive(Debug, Default)]
pub(in crate::observe) struct UncountedNotices {
    spent: Mutex<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    /// From when on there may be another.
    next_s: u64,
    since_last: u64,
}

impl UncountedNotices {
    /// Counts one more, and returns what to say of all since the last notice, if it is time for another.
    pub(in crate::observe) fn take(&self, now_s: u64) -> Option<String> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.since_last += 1;
        if now_s < spent.next_s {
            return None;
        }
        let so_many = std::mem::take(&mut spent.since_last);
        spent.next_s = now_s + APART_S;
        let refused = if so_many == 1 { "1 request was".to_owned() } else { format!("{so_many} requests were") };
        Some(format!(
            "{refused} refused because the store could not count: it is full (`when_full: refuse`), \
             or does not answer (`on_failure: closed`)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_the_others_together() {
        let notices = UncountedNotices::default();
        let first = notices.take(7).unwrap();
        assert!(first.starts_with("1 request was refused "), "{first}");
        assert_eq!((0..100).filter_map(|_| notices.take(66)).count(), 0);
        let others = notices.take(67).unwrap();
        assert!(others.starts_with("101 requests were refused "), "{others}");
    }
}
