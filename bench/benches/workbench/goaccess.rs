//! GoAccess, an analyser of access logs that many operators have, on the beginning of the same log.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::logs::GeneratedLog;

/// The lines that it reads. It is too slow for all of them.
const LINES: u64 = 100_000;

/// Returns its speed in million lines a second; `None` if it is not installed.
pub(crate) fn mlines(log: &GeneratedLog) -> Option<f64> {
    let beginning = log.path.with_extension("beginning");
    let lines = copy_beginning(&log.path, &beginning).unwrap();
    let start = Instant::now();
    let status = Command::new("goaccess")
        .arg(&beginning)
        .args(["--log-format=COMBINED", "--no-progress", "--no-global-config", "--output"])
        .arg(log.path.with_extension("json"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let seconds = start.elapsed().as_secs_f64();
    match status {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        status => {
            assert!(status.unwrap().success(), "goaccess failed");
            Some(lines as f64 / seconds / 1e6)
        }
    }
}

fn copy_beginning(from: &Path, to: &Path) -> io::Result<u64> {
    let (mut from, mut to) = (BufReader::new(File::open(from)?), BufWriter::new(File::create(to)?));
    let (mut line, mut lines) = (Vec::new(), 0);
    while lines < LINES && from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        line.clear();
        lines += 1;
    }
    to.flush()?;
    Ok(lines)
}
