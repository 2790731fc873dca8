//! A cache of `RateLimit-Policy` values: the field is the same for all requests to which the same limits apply.

use std::sync::OnceLock;
#[cfg(feature = "tower")]
use std::sync::atomic::{AtomicU64, Ordering};

use super::writer::FieldText;

/// The number of cached values. Few policies have more sets of limits that apply together; a set whose slot is taken is
/// written anew each time.
const PLACES: usize = 64;

/// The cached values.
#[derive(Debug)]
pub(crate) struct PolicyLists {
    /// The number of the policy, unique in this process.
    #[cfg(feature = "tower")]
    pub(super) generation: u64,
    places: Box<[OnceLock<PolicyList>]>,
}

/// A value of `RateLimit-Policy`, and its limits.
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
            generation: NUMBERS.fetch_add(1, Ordering::Relaxed),
            places: (0..PLACES).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Returns the value for these limits. `write` creates it the first time; `None` if other limits have its slot.
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
    fn lists_of_a_small_policy_are_written_once() {
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
