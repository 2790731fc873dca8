//! `RateLimit-Policy` says the same to everybody who meets the same limits, so
//! it is written once for each such set.

use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use smallvec::SmallVec;

/// Few policies have more sets of limits that are met together. One that finds
/// its place taken is written anew each time.
const PLACES: usize = 64;

/// The lists that were written so far.
#[derive(Debug)]
pub(crate) struct PolicyLists {
    places: Box<[OnceLock<PolicyList>]>,
}

/// The value of `RateLimit-Policy` for some limits.
#[derive(Clone, Debug)]
pub(crate) struct PolicyList {
    quotas: Quotas,
    pub(crate) text: Box<str>,
    #[cfg(feature = "tower")]
    pub(crate) value: http::HeaderValue,
}

pub(crate) type Quotas = SmallVec<[u32; 6]>;

impl PolicyLists {
    pub(crate) fn new() -> PolicyLists {
        PolicyLists { places: (0..PLACES).map(|_| OnceLock::new()).collect() }
    }

    /// The list of these limits; `None` if others have its place.
    #[inline]
    pub(crate) fn get(&self, quotas: &Quotas, write: impl FnOnce(&Quotas) -> String) -> Option<&PolicyList> {
        let make = || PolicyList::new(quotas.clone(), write(quotas));
        let list = self.places[place(quotas)].get_or_init(make);
        (list.quotas == *quotas).then_some(list)
    }
}

impl PolicyList {
    fn new(quotas: Quotas, text: String) -> PolicyList {
        PolicyList {
            quotas,
            #[cfg(feature = "tower")]
            // Names of rules are printable.
            value: http::HeaderValue::from_str(&text).unwrap_or_else(|_| http::HeaderValue::from_static("")),
            text: text.into(),
        }
    }
}

fn place(quotas: &Quotas) -> usize {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    quotas.iter().for_each(|quota| hasher.write_u32(*quota));
    hasher.finish() as usize % PLACES
}
