//! What is counted for a rule, and where it stands in the row of the rule's counters.

use tollgate::Decision;

use crate::front_end::FrontEnd;
use crate::outcome::Outcome;

/// One counter in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell(usize);

const DECISIONS: usize = FrontEnd::ALL.len() * Outcome::ALL.len();
const HEADROOM: usize = DECISIONS + 3;

/// Shares of a limit, in millionths, with what a metric calls them.
const HEADROOM_BOUNDS: [(u64, &str); 7] = [
    (0, "0"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (750_000, "0.75"),
    (900_000, "0.9"),
];

/// How many counters a rule has, in whole cache lines.
pub(super) const ROW: usize = (HEADROOM + HEADROOM_BOUNDS.len() + 2).next_multiple_of(8);

impl Cell {
    /// How often the rule's limit said no, whether or not the rule decided.
    pub(super) const REFUSALS: Cell = Cell(DECISIONS);
    /// How often it would have, where it is only watched.
    pub(super) const SHADOW_REFUSALS: Cell = Cell(DECISIONS + 1);
    /// How often it let a request pass with a warning.
    pub(super) const WARNINGS: Cell = Cell(DECISIONS + 2);
    /// All headroom together, in millionths.
    pub(super) const HEADROOM_SUM: Cell = Cell(HEADROOM + HEADROOM_BOUNDS.len() + 1);

    /// The rule decided a request.
    pub(super) const fn decided(front_end: FrontEnd, outcome: Outcome) -> Cell {
        Cell(front_end.position() * Outcome::ALL.len() + outcome.position())
    }

    /// So much of a limit was left, in millionths.
    pub(super) fn headroom(millionths: u64) -> Cell {
        Cell(HEADROOM + HEADROOM_BOUNDS.partition_point(|(bound, _)| *bound < millionths))
    }

    /// The steps of headroom, with the bounds up to which they go.
    pub(super) fn headroom_steps() -> impl Iterator<Item = (Cell, &'static str)> {
        let bounds = HEADROOM_BOUNDS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
        (HEADROOM..).map(Cell).zip(bounds)
    }

    pub(super) const fn position(self) -> usize {
        self.0
    }
}

/// What remains of a limit after a decision, in millionths of it. Whatever remains is more than nothing.
pub(super) fn headroom(decision: &Decision) -> u64 {
    const MILLION: u64 = 1_000_000;
    let limit = decision.limit.max(1);
    match decision.remaining.checked_mul(MILLION) {
        Some(scaled) => scaled.div_ceil(limit).min(MILLION),
        // Then a millionth of the limit is a large number.
        None => (decision.remaining / (limit / MILLION).max(1)).clamp(1, MILLION),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tollgate::{Action, ChargeVerdict};

    use super::*;

    fn of(remaining: u64, limit: u64) -> u64 {
        let verdict = ChargeVerdict::Allowed { delay: 0 };
        headroom(&Decision { verdict, limit, remaining, next_after: 0, reset_after: 0 })
    }

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

    #[test]
    fn headroom_is_what_remains_of_the_limit() {
        let step = |remaining, limit| {
            let cell = Cell::headroom(of(remaining, limit));
            Cell::headroom_steps().find(|(other, _)| *other == cell).unwrap().1
        };
        assert_eq!((step(0, 5), step(1, 100), step(5, 100), step(6, 100)), ("0", "0.05", "0.05", "0.1"));
        assert_eq!((step(1, 2), step(9, 10), step(10, 10)), ("0.5", "0.9", "+Inf"));
        // One of very many is not nothing, and nothing overflows.
        assert_eq!((step(1, u64::MAX), step(u64::MAX, u64::MAX), step(0, 0)), ("0.05", "+Inf", "0"));
        assert_eq!((of(1, 4), of(u64::MAX / 2, u64::MAX)), (250_000, 500_000));
    }
}
