use std::ops::Range;

/// The arguments of one command, where they stand in what was read.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    bytes: &'a [u8],
    places: &'a [Range<u32>],
    is_typed: bool,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(bytes: &'a [u8], places: &'a [Range<u32>], is_typed: bool) -> Arguments<'a> {
        Arguments { bytes, places, is_typed }
    }

    /// The bytes from the end of one argument to the end of a later one, with lengths and line ends: behind that
    /// argument the same bytes are the same arguments. `None` if they were typed, because then nothing is between them.
    pub(super) fn written_after(&self, first: usize, last: usize) -> Option<&'a [u8]> {
        if self.is_typed {
            return None;
        }
        self.bytes.get(self.places.get(first)?.end as usize..self.places.get(last)?.end as usize + 2)
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
        let Arguments { bytes, places, .. } = *self;
        let places = places.get(at..).unwrap_or_default();
        places.iter().filter_map(move |place| bytes.get(place.start as usize..place.end as usize))
    }
}
