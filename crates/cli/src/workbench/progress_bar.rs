use std::cell::{Cell, OnceCell};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tollgate_workbench::log::Progress;

use super::table::grouped;

/// Shows on stderr how much of the logs has been read, how fast and for how long still, if stderr is a terminal.
pub(crate) struct ProgressBarOnTerminal {
    bar: OnceCell<ProgressBar>,
    started: Instant,
    lines: Cell<u64>,
    shown: Cell<Instant>,
}

/// It fits into 80 columns with a thousand million lines: what is beyond is cut off.
const WITH_TOTAL: &str = "{bar:12} {percent} % of {total_bytes}, {msg}, {eta} left";
const WITHOUT_TOTAL: &str = "{spinner} {bytes}, {msg}";

/// The time between two states of the text. A faster one could not be read.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

impl ProgressBarOnTerminal {
    pub(crate) fn new() -> ProgressBarOnTerminal {
        let now = Instant::now();
        ProgressBarOnTerminal { bar: OnceCell::new(), started: now, lines: Cell::new(0), shown: Cell::new(now) }
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

impl Progress for ProgressBarOnTerminal {
    fn total(&self, bytes: Option<u64>) {
        if !io::stderr().is_terminal() {
            return;
        }
        let bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::stderr());
        let template = if bytes.is_some() { WITH_TOTAL } else { WITHOUT_TOTAL };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(lines_text(0, Duration::ZERO));
        // A log is announced once; a second announcement would be of the same logs.
        let _ = self.bar.set(bar);
    }

    fn advance(&self, bytes: u64, lines: u64) {
        let Some(bar) = self.bar.get() else { return };
        self.lines.set(self.lines.get() + lines);
        if self.shown.get().elapsed() >= SHOWN_EVERY {
            self.shown.set(Instant::now());
            bar.set_message(lines_text(self.lines.get(), self.started.elapsed()));
        }
        bar.inc(bytes);
    }
}

/// Returns the lines and their rate: `12,000,000 lines, 3,100,000/s`.
fn lines_text(lines: u64, elapsed: Duration) -> String {
    let per_second = u128::from(lines) * 1_000 / elapsed.as_millis().max(1);
    // Two digits: the others change faster than they can be read.
    let step = 10_u128.pow(per_second.max(1).ilog10().saturating_sub(1));
    let per_second = u64::try_from(per_second / step * step).unwrap_or(u64::MAX);
    format!("{} lines, {}/s", grouped(lines), grouped(per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_has_two_digits() {
        let text = |lines, ms| lines_text(lines, Duration::from_millis(ms));
        assert_eq!(text(12_000_000, 3_871), "12,000,000 lines, 3,000,000/s");
        assert_eq!(text(7, 1_000), "7 lines, 7/s");
        assert_eq!(text(0, 0), "0 lines, 0/s");
    }
}
