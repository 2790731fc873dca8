//! The measured values, by name. Parts of the benchmark run in separate processes and print their figures as lines of
//! `name<TAB>value`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// Figures by name.
#[derive(Default)]
pub(crate) struct Figures(BTreeMap<String, f64>);

impl Figures {
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Whether there is a figure whose name has this prefix.
    pub(crate) fn has(&self, beginning: &str) -> bool {
        self.0.keys().any(|name| name.starts_with(beginning))
    }

    /// Returns how many times faster `ours` is than `theirs`.
    pub(crate) fn ratio(&self, ours: &str, theirs: &str) -> Option<f64> {
        Some(self.get(theirs)? / self.get(ours)?)
    }

    /// Formats a figure as a table cell.
    pub(crate) fn cell(&self, name: &str, decimals: usize) -> String {
        self.get(name).map_or_else(|| "–".to_owned(), |value| format!("{value:.decimals$}"))
    }

    /// Runs a part of this benchmark in a fresh process, so that no part inherits another's heap, and reads its figures.
    pub(crate) fn run_part(&mut self, arguments: &[&str]) {
        let mut command = Command::new(this_program());
        command.arg("--part").args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().unwrap_or_else(|error| panic!("cannot start this program: {error}"));
        assert!(output.status.success(), "{arguments:?} failed: {}", output.status);
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let figure = line.split_once('\t').and_then(|(name, value)| Some((name, value.parse().ok()?)));
            let Some((name, value)) = figure else { panic!("not a figure: {line:?}") };
            self.set(name, value);
        }
    }

    pub(crate) fn set(&mut self, name: &str, value: f64) {
        self.0.insert(name.to_owned(), value);
    }
}

pub(crate) fn this_program() -> std::path::PathBuf {
    std::env::current_exe().unwrap_or_else(|error| panic!("cannot find this program: {error}"))
}

/// Reports a figure to the parent process.
pub(crate) fn report(name: &str, value: f64) {
    println!("{name}\t{value}");
}
