use std::time::Duration;

/// How long to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// To check that everything runs. Its figures vary.
    Quick,
    Full,
}

impl Effort {
    pub(crate) fn of(arguments: &[String]) -> Effort {
        if arguments.iter().any(|argument| argument == "--quick") { Effort::Quick } else { Effort::Full }
    }

    /// The number of rounds, in each of which every contestant has a turn.
    pub(crate) fn rounds(self) -> usize {
        match self {
            Effort::Quick => 3,
            Effort::Full => 15,
        }
    }

    /// The length of a turn.
    pub(crate) fn turn(self) -> Duration {
        match self {
            Effort::Quick => Duration::from_millis(300),
            Effort::Full => Duration::from_secs(1),
        }
    }

    /// The time for which checks are sent at a steady rate.
    pub(crate) fn steady(self) -> Duration {
        match self {
            Effort::Quick => Duration::from_secs(1),
            Effort::Full => Duration::from_secs(10),
        }
    }

    /// The number of clients whose keys are measured.
    pub(crate) fn clients(self) -> u64 {
        match self {
            Effort::Quick => 50_000,
            Effort::Full => 1_000_000,
        }
    }
}
