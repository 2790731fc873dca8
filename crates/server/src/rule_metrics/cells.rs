//! What is counted for a rule, and where it stands in the row of the rule's counters.

use super::headroom::{STEPS, bound_names};
use crate::front_end::FrontEnd;
use crate::outcome::Outcome;

/// One counter in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell(usize);

const DECISIONS: usize = FrontEnd::ALL.len() * Outcome::ALL.len();
const HEADROOM: usize = DECISIONS + 3;

/// How many counters a rule has, beside those for endpoints and quotas.
pub(super) const ROW: usize = HEADROOM + STEPS + 1;

impl Cell {
    /// How often the rule's limit said no, whether or not the rule decided.
    pub(super) const REFUSALS: Cell = Cell(DECISIONS);
    /// How often it would have, where it is only watched.
    pub(super) const SHADOW_REFUSALS: Cell = Cell(DECISIONS + 1);
    /// How often it let a request pass with a warning.
    pub(super) const WARNINGS: Cell = Cell(DECISIONS + 2);
    /// All headroom together, in millionths.
    pub(super) const HEADROOM_SUM: Cell = Cell(HEADROOM + STEPS);

    /// The rule decided a request.
    #[inline]
    pub(super) const fn decided(front_end: FrontEnd, outcome: Outcome) -> Cell {
        Cell(front_end.position() * Outcome::ALL.len() + outcome.position())
    }

    /// How often a limit's headroom was in that step.
    pub(super) fn headroom(step: usize) -> Cell {
        Cell(HEADROOM + step.min(STEPS - 1))
    }

    /// The steps of headroom, with the bounds up to which they go.
    pub(super) fn headroom_steps() -> impl Iterator<Item = (Cell, &'static str)> {
        (HEADROOM..).map(Cell).zip(bound_names())
    }

    pub(super) const fn position(self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tollgate::Action;

    use super::*;

    #[test]
    fn no_two_things_are_counted_in_one_cell() {
        let mut cells = vec![Cell::REFUSALS, Cell::SHADOW_REFUSALS, Cell::WARNINGS, Cell::HEADROOM_SUM];
        for front_end in FrontEnd::ALL {
            cells.extend(Outcome::ALL.map(|outcome| Cell::decided(front_end, outcome)));
        }
        cells.extend(Cell::headroom_steps().map(|(cell, _)| cell));
        let positions: HashSet<usize> = cells.iter().map(|cell| cell.position()).collect();
        assert_eq!(positions.len(), cells.len());
        assert!(positions.iter().all(|position| *position < ROW));
        assert_eq!(Cell::decided(FrontEnd::Http, Outcome::Decided(Action::Allow)).position(), 1);
    }
}
