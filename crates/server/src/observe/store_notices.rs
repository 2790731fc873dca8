use std::sync::{Mutex, PoisonError};

/// How many notices that the store causes are written in a second.
const STORE_NOTICES_A_SECOND: u64 = 5;

/// Which of the notices that the store causes are written. A server that comes
/// and goes must not fill a disk.
#[derive(Debug, Default)]
pub(super) struct StoreNotices {
    /// In which second, and how many.
    spent: Mutex<(u64, u64)>,
}

impl StoreNotices {
    pub(super) fn take(&self, now_s: u64) -> bool {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if spent.0 != now_s {
            *spent = (now_s, 0);
        }
        spent.1 += 1;
        spent.1 <= STORE_NOTICES_A_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many() {
        let notices = StoreNotices::default();
        assert_eq!((0..100).filter(|_| notices.take(7)).count() as u64, STORE_NOTICES_A_SECOND);
        assert!(notices.take(8));
    }
}
