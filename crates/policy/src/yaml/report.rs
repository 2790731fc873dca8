use std::fmt;

use super::NamedFile;
use super::diagnostic::Diagnostic;

/// Everything that is wrong with a file. Displayed as blocks with an empty line between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What has to be repaired; never empty.
    pub errors: Vec<Diagnostic>,
    /// What is legal but likely wrong, as far as it can be told.
    pub warnings: Vec<Diagnostic>,
    /// How many more errors there are than are told.
    pub omitted: usize,
    /// The files that it names and that were read, or could not be: where one changes, there may be less that is wrong.
    pub files: Vec<NamedFile>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, diagnostic) in self.errors.iter().chain(&self.warnings).enumerate() {
            if at > 0 {
                f.write_str("\n\n")?;
            }
            diagnostic.fmt(f)?;
        }
        match self.omitted {
            0 => Ok(()),
            1 => f.write_str("\n\nand 1 more error"),
            more => write!(f, "\n\nand {more} more errors"),
        }
    }
}

impl std::error::Error for Report {}
