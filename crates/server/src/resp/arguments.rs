use std::ops::Range;

/// The arguments of one command, where they stand in what was read.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    bytes: &'a [u8],
    places: &'a [Range<u32>],
}

impl<'a> Arguments<'a> {
    pub(super) fn new(bytes: &'a [u8], places: &'a [Range<u32>]) -> Arguments<'a> {
        Arguments { bytes, places }
    }

    /// How many, the command's name included.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a command has at least its name")]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The one at a position; the name is at 0.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&'a [u8]> {
        let place = self.places.get(at)?;
        self.bytes.get(place.start as usize..place.end as usize)
    }

    /// All from a position on.
    pub fn from(&self, at: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let Arguments { bytes, places } = *self;
        let places = places.get(at..).unwrap_or_default();
        places.iter().filter_map(move |place| bytes.get(place.start as usize..place.end as usize))
    }
}
