use crate::limit::Limit;

/// One cost to one key under one limit, ready to be made.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    pub(crate) limit: &'a Limit,
    pub(crate) hash: u64,
    pub(crate) cost: u64,
    pub(crate) mode: Mode,
}

/// What a charge is to the others that are made with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It is made if all are, and all are refused if it is.
    #[default]
    Enforce,
    /// There must be room for it, or all are refused; but it is not made.
    Guard,
    /// It is made if the others are and there is room for it; it stands in nobody's way.
    Shadow,
    /// It is neither made nor in anybody's way: only what the answer would be.
    Watch,
}

impl<'a> Charge<'a> {
    /// The same charge with another part among those that are made with it.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Charge<'a> {
        Charge { mode, ..self }
    }

    /// Whether it can refuse the whole.
    pub(crate) fn binds(&self) -> bool {
        matches!(self.mode, Mode::Enforce | Mode::Guard)
    }

    /// Whether it is made where the whole passes, and undone where it does not.
    pub(crate) fn is_made(&self) -> bool {
        self.cost > 0 && self.mode == Mode::Enforce
    }
}
