//! Runs of the program in a folder of their own, and reports that are stored in files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tollgate_workbench::traffic::Population;

const REPORTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workbench/reports");
const CHARTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/charts");

/// A folder with logs and policies.
pub(crate) struct Folder(TempDir);

/// The result of a run.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// 180 ordinary clients, a scraper and a credential stuffer, for 10 minutes.
pub(crate) const POPULATION: Population = Population {
    seed: 5,
    poisson_clients: 90,
    on_off_clients: 90,
    scrapers: 1,
    stuffers: 1,
    start_ns: 1_767_225_600_000_000_000,
    duration_s: 600,
};

impl Folder {
    /// Creates a folder with `access.log`, the log of [`POPULATION`].
    pub(crate) fn with_log() -> Folder {
        let folder = Folder::empty();
        let lines: Vec<String> = POPULATION.requests().iter().map(|request| request.combined_line() + "\n").collect();
        folder.write("access.log", lines.concat());
        folder
    }

    pub(crate) fn empty() -> Folder {
        Folder(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs the program in the folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        Run::of(&self.command(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs the program with a file of the folder as stdin.
    pub(crate) fn run_with_stdin(&self, arguments: &[&str], stdin: &str) -> Run {
        let file = std::fs::File::open(self.path(stdin)).unwrap();
        Run::of(&self.command(arguments).stdin(file).output().unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args(arguments).current_dir(self.0.path());
        command
    }
}

impl Run {
    fn of(output: &Output) -> Run {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Run { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Returns stdout after asserting that the run succeeded.
    pub(crate) fn success(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        &self.stdout
    }

    /// Returns stdout as JSON after asserting that the run succeeded.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.success()).unwrap()
    }

    /// Asserts that the run failed with this exit code, and that stderr contains these texts and stdout nothing.
    pub(crate) fn assert_fails(&self, code: i32, shown: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        for text in shown {
            assert!(self.stderr.contains(text), "{text:?} is not in\n{}", self.stderr);
        }
    }
}

/// Asserts that a report is that of the stored file. `TOLLGATE_WRITE_OUTPUTS=1` rewrites the files; review the changes.
pub(crate) fn assert_report(stored: &str, report: &str) {
    let expected = stored_text(&Path::new(REPORTS).join(stored), report);
    assert!(report == expected, "{stored} has\n{expected}\nand the report is\n{report}");
}

/// Asserts that a chart is the one that the documentation shows; it is rewritten like a report.
pub(crate) fn assert_chart(stored: &str, chart: &str) {
    let expected = stored_text(&Path::new(CHARTS).join(stored), chart);
    assert!(chart == expected, "{stored} has other shapes than the chart");
}

/// Reads a stored text, after rewriting it if that is asked for.
fn stored_text(file: &Path, text: &str) -> String {
    if std::env::var_os("TOLLGATE_WRITE_OUTPUTS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    std::fs::read_to_string(file).unwrap_or_default()
}
