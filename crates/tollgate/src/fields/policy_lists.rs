//! `RateLimit-Policy` says the same to all clients that meet the same limits, so it is written once for each such set.

use std::sync::OnceLock;

use smallvec::SmallVec;

use super::writer::FieldText;

/// Few policies have more sets of limits that are met together. One that finds
/// its place taken is written anew each time.
const PLACES: usize = 64;

/// The lists that were written so far.
#[derive(Debug)]
pub(crate) struct PolicyLists {
    places: Box<[OnceLock<PolicyList>]>,
}

/// The value of `RateLimit-Policy` for some limits.
#[derive(Debug)]
pub(crate) struct PolicyList {
    quotas: SmallVec<[u32; 6]>,
    text: FieldText,
}

impl PolicyLists {
    pub(crate) fn new() -> PolicyLists {
        PolicyLists { places: (0..PLACES).map(|_| OnceLock::new()).collect() }
    }

    /// The list of these limits, of which there is at least one. `write` makes it the first time; `None` if other limits
    /// have its place.
    #[inline]
    pub(crate) fn get(
        &self,
        quotas: impl Iterator<Item = u32> + Clone,
        write: impl FnOnce() -> FieldText,
    ) -> Option<&FieldText> {
        let place = quotas.clone().fold(1_usize, |place, quota| place.wrapping_mul(31).wrapping_add(quota as usize));
        let make = || PolicyList { quotas: quotas.clone().collect(), text: write() };
        let list = self.places[place % PLACES].get_or_init(make);
        quotas.eq(list.quotas.iter().copied()).then_some(&list.text)
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
                let written = lists.get(set.iter().copied(), || FieldText::new(format!("{set:?}")));
                assert_eq!(format!("{:?}", written.unwrap()), format!("{:?}", FieldText::new(format!("{set:?}"))));
            }
        }
        for set in sets {
            assert!(lists.get(set.iter().copied(), || panic!("{set:?} is written already")).is_some());
        }
    }
}
