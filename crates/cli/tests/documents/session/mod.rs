//! Runs the steps of a page in one shell, with a directory and a network of its own.

mod charts;
mod expected;
pub(crate) mod namespace;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use tollgate_testbed::TemporaryDirectory;

use crate::commands::Command;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The programs that pages may call, apart from `tollgate` and the `cargo` commands that run it: those that are on every
/// Debian system, and those that `scripts/test` installs.
const PROGRAMS: [&str; 34] = [
    "awk",
    "bash",
    "cat",
    "chmod",
    "cp",
    "curl",
    "cut",
    "date",
    "env",
    "grep",
    "gzip",
    "head",
    "ip",
    "ls",
    "mkdir",
    "mv",
    "redis-cli",
    "redis-server",
    "rm",
    "sed",
    "seq",
    "sh",
    "sleep",
    "sort",
    "tail",
    "tee",
    "timeout",
    "touch",
    "tr",
    "uniq",
    "wc",
    "xargs",
    "zcat",
    "kill",
];

/// `cargo` for a reader who has cloned the repository: it only runs or builds the program.
const CARGO: &str = r#"#!/bin/sh
case "$1 $2 $3" in
"run --release --") shift 3; exec tollgate "$@" ;;
"build --release "*) ;;
*) echo "a page may not run: cargo $*" >&2; exit 127 ;;
esac
"#;

/// A step of a page.
pub(crate) enum Step {
    /// A command of the page; if it is to succeed, the session ends when it fails.
    Run { command: Command, must_succeed: bool },
    /// A file that the page shows.
    Write { name: String, text: String },
    /// A policy that the page shows, and the warnings that it has; `None` for a part of a policy.
    Validate { line: usize, text: String, warnings: Option<Vec<String>> },
}

/// Runs the steps, and returns the first that does not do what the page says.
pub(crate) fn run(page: &str, steps: &[Step]) -> Result<(), String> {
    let directory = TemporaryDirectory::new("page").unwrap();
    let files = Files::create(directory.path(), page);
    let variables = format!("_steps='{}'\nPATH='{}'\n", files.steps.display(), files.bin.display());
    let mut script = variables + include_str!("session.sh");
    for (number, step) in steps.iter().enumerate() {
        script += &files.prepare(number, step);
    }
    fs::write(files.steps.join("session"), script).unwrap();
    let mut process = namespace::command().expect("namespaces");
    process.arg(files.bin.join("bash")).arg(files.steps.join("session")).current_dir(&files.home);
    let stderr = execute(&mut process, &files);
    for (number, step) in steps.iter().enumerate() {
        files.check(number, step).map_err(|problem| format!("{page}:{problem}{stderr}"))?;
    }
    charts::check(page, &files.home)
}

/// Runs the shell, and returns what it writes to stderr.
fn execute(process: &mut Process, files: &Files) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    process.env_clear().env("PATH", path).env("HOME", &files.root).env("LANG", "C.UTF-8").env("TZ", "UTC");
    // redis-cli prints as it does on a terminal. The secret is that of the policies which verify tokens.
    process.env("FAKETTY", "1").env("JWT_SECRET", "0123456789abcdef0123456789abcdef");
    process.env("CURL_HOME", &files.steps);
    let output = process.stdin(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The directories of a session.
struct Files {
    root: PathBuf,
    bin: PathBuf,
    steps: PathBuf,
    /// The directory in which the reader begins.
    home: PathBuf,
}

impl Files {
    fn create(directory: &Path, page: &str) -> Files {
        let root = directory.join("tollgate");
        // A page of a recipe is read in the recipe's directory, any other in that of the repository.
        let home =
            if page.starts_with("deploy/") { root.join(page).parent().unwrap().to_owned() } else { root.clone() };
        let files = Files { bin: directory.join("bin"), steps: directory.join("steps"), root, home };
        for folder in [&files.root.join("target/release"), &files.bin, &files.steps] {
            fs::create_dir_all(folder).unwrap();
        }
        // curl succeeds with a 404 otherwise.
        fs::write(files.steps.join(".curlrc"), "fail-with-body\n").unwrap();
        copy(&Path::new(REPOSITORY).join("deploy"), &files.root.join("deploy"));
        files.install_programs();
        files
    }

    fn install_programs(&self) {
        for program in [self.bin.join("tollgate"), self.root.join("target/release/tollgate")] {
            symlink(env!("CARGO_BIN_EXE_tollgate"), program).unwrap();
        }
        fs::write(self.bin.join("cargo"), CARGO).unwrap();
        fs::set_permissions(self.bin.join("cargo"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        for program in PROGRAMS {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            let found = std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.exists());
            if let Some(path) = found {
                symlink(path, self.bin.join(program)).unwrap();
            }
        }
    }

    /// Writes the files of a step, and returns the line of the session that runs it.
    fn prepare(&self, number: usize, step: &Step) -> String {
        let write = |text: &str| fs::write(self.steps.join(number.to_string()), text).unwrap();
        match step {
            Step::Write { name, text } => {
                write(text);
                format!("cp \"$_steps/{number}\" '{name}' || exit\n")
            }
            Step::Validate { text, .. } => {
                fs::write(self.steps.join(format!("{number}.yaml")), text).unwrap();
                write(&format!("tollgate validate \"$_steps/{number}.yaml\"\n"));
                format!("_run {number} || exit\n")
            }
            Step::Run { command, must_succeed } => match command.service() {
                Some(service) => {
                    write(&command.replacing_the_shell());
                    let name = if command.is_in_background() { "" } else { service.name };
                    format!("_start {number} '{name}' '{}' || exit\n", service.ready)
                }
                None => {
                    write(&command.text);
                    format!("_run {number}{}\n", if *must_succeed { " || exit" } else { "" })
                }
            },
        }
    }

    fn check(&self, number: usize, step: &Step) -> Result<(), String> {
        let read = |ending: &str| fs::read_to_string(self.steps.join(format!("{number}.{ending}"))).ok();
        let output = read("out").unwrap_or_default();
        let code = read("code").map(|code| code.trim().to_owned());
        match step {
            Step::Write { .. } => Ok(()),
            Step::Validate { line, warnings, .. } => {
                crate::policies::check(*line, code.as_deref(), &output, warnings.as_deref())
            }
            Step::Run { command, must_succeed } => check_command(command, *must_succeed, code.as_deref(), &output),
        }
    }
}

fn check_command(command: &Command, must_succeed: bool, code: Option<&str>, output: &str) -> Result<(), String> {
    let Command { line, text, .. } = command;
    let Some(code) = code else { return Err(format!("{line}: the session ended before this command ended: {text}")) };
    if must_succeed && code != "0" {
        return Err(format!("{line}: exit code {code} of: {text}{output}"));
    }
    let shown = command.output.as_deref().unwrap_or_default().join("\n");
    let mut shown_lines = expected::lines(&shown);
    if shown_lines.is_empty() {
        return Ok(());
    }
    // A service prints more lines after the lines that the page shows.
    if command.service().is_some() {
        shown_lines.push("..");
    }
    if expected::matches(&shown_lines, &expected::lines(output)) {
        return Ok(());
    }
    Err(format!("{line}: {text}prints\n{output}\nand the page shows\n{shown}"))
}

/// Copies a directory with its content.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
