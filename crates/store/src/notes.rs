use tollgate_core::Charged;

/// What several charges have left, so that they can be undone: without
/// allocation for the few limits that a request usually meets.
#[derive(Default)]
pub(crate) struct Notes {
    few: [Charged; Notes::FEW],
    len: usize,
    more: Vec<Charged>,
}

impl Notes {
    const FEW: usize = 4;

    #[inline]
    pub(crate) fn push(&mut self, charged: Charged) {
        match self.few.get_mut(self.len) {
            Some(place) => *place = charged,
            None => self.more.push(charged),
        }
        self.len += 1;
    }

    /// Replaces what was noted at `at`.
    pub(crate) fn set(&mut self, at: usize, charged: Charged) {
        match self.few.get_mut(at) {
            Some(place) => *place = charged,
            None => self.more[at - Notes::FEW] = charged,
        }
    }

    /// What was noted at `at`.
    pub(crate) fn get(&self, at: usize) -> Charged {
        self.few.get(at).copied().unwrap_or_else(|| self.more[at - Notes::FEW])
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Charged> + ExactSizeIterator {
        (0..self.len).map(|at| self.get(at))
    }
}
