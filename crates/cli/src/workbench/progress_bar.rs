use std::cell::OnceCell;
use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tollgate_workbench::log::Progress;

/// Shows on stderr how much of the logs has been read, if stderr is a terminal.
#[derive(Default)]
pub(crate) struct ProgressBarOnTerminal {
    bar: OnceCell<ProgressBar>,
}

const WITH_TOTAL: &str = "{bar:40} {bytes} of {total_bytes}, {msg} lines, {eta} left";
const WITHOUT_TOTAL: &str = "{spinner} {bytes}, {msg} lines";

impl ProgressBarOnTerminal {
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
        bar.set_message("0");
        // A log is announced once; a second announcement would be of the same logs.
        let _ = self.bar.set(bar);
    }

    fn advance(&self, bytes: u64, lines: u64) {
        let Some(bar) = self.bar.get() else { return };
        bar.inc(bytes);
        let known: u64 = bar.message().parse().unwrap_or(0);
        bar.set_message((known + lines).to_string());
    }
}
