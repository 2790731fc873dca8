//! The command line.

/// How long to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// To check that everything runs. Its figures vary.
    Quick,
    Full,
}

impl Effort {
    pub(crate) fn is_full(self) -> bool {
        self == Effort::Full
    }

    pub(crate) fn rounds(self) -> usize {
        if self.is_full() { 7 } else { 3 }
    }

    /// Scales a number of checks of the full run.
    pub(crate) fn checks(self, full: usize) -> usize {
        if self.is_full() { full } else { full / 4 }
    }

    pub(crate) fn name(self) -> &'static str {
        if self.is_full() { "full" } else { "quick" }
    }

    pub(crate) fn named(name: &str) -> Effort {
        if name == "quick" { Effort::Quick } else { Effort::Full }
    }
}

/// The options of a run.
pub(crate) struct Options {
    pub(crate) effort: Effort,
    /// One section or group, by name.
    pub(crate) only: Option<String>,
}

/// The values of `--only`.
pub(crate) const SECTIONS: [&str; 8] = ["hot", "1k", "1m", "10m", "two-charges", "memory", "latency", "instructions"];

impl Options {
    /// Parses the command line.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options { effort: Effort::Full, only: None };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // Passed by cargo.
                "--bench" => {}
                "--quick" => options.effort = Effort::Quick,
                "--only" => {
                    let name = arguments.next().unwrap_or_default();
                    if !SECTIONS.contains(&name.as_str()) {
                        return Err(format!("`--only {name}`: expected one of {}", SECTIONS.join(", ")));
                    }
                    options.only = Some(name);
                }
                other => return Err(format!("`{other}` is no option: expected --quick or --only NAME")),
            }
        }
        Ok(options)
    }

    pub(crate) fn wants(&self, section: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == section)
    }
}
