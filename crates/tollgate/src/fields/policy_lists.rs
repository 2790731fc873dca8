//! `RateLimit-Policy` says the same to all clients that meet the same limits, so it is written once for each such set.

use std::sync::OnceLock;
#[cfg(feature = "tower")]
use std::sync::atomic::{AtomicU64, Ordering};

use super::writer::FieldText;

/// Few policies have more sets of limits that are met together. One that finds
/// its place taken is written anew each time.
const PLACES: usize = 64;

/// The lists that were written so far.
#[derive(Debug)]
pub(crate) struct PolicyLists {
    /// Those of no other policy in this process have it.
    #[cfg(feature = "tower")]
    pub(super) number: u64,
    places: Box<[OnceLock<PolicyList>]>,
}

/// The value of `RateLimit-Policy`, and the limits that it is about.
#[derive(Debug)]
struct PolicyList {
    quotas: Box<[u32]>,
    text: FieldText,
}

impl PolicyLists {
    pub(crate) fn new() -> PolicyLists {
        #[cfg(feature = "tower")]
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        PolicyLists {
            #[cfg(feature = "tower")]
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            places: (0..PLACES).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The list of these limits. `write` makes it the first time; `None` if other limits have its place.
    #[inline]
    pub(super) fn get(&self, quotas: &[u32], write: impl FnOnce() -> FieldText) -> Option<&FieldText> {
        let place = quotas.iter().fold(1_usize, |place, quota| place.wrapping_mul(31).wrapping_add(*quota as usize));
        let list = self.places[place % PLACES].get_or_init(|| PolicyList { quotas: quotas.into(), text: write() });
        (*list.quotas == *quotas).then_some(&list.text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_lists_of_a_small_policy_are_each_written_once() {
        let lists = PolicyLists::new();
        let sets: [&[u32]; 7] = [&[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];
        for _ in 0..2 {
            for set in sets {
                let written = lists.get(set, || FieldText::new(format!("{set:?}")));
                assert_eq!(format!("{:?}", written.unwrap()), format!("{:?}", FieldText::new(format!("{set:?}"))));
            }
        }
        for set in sets {
            assert!(lists.get(set, || panic!("{set:?} is written already")).is_some());
        }
    }
}
